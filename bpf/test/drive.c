/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Drives one congestion control in user space: a line of standard input is an event, the window and
 * the threshold after it are a line of standard output. Compiled with -DALGORITHM='"htcp.c"'; the tests
 * of crates/howdah-bpf compare it with the sans-IO version and with the published formulas.
 *
 *   ack NOW_US SEGMENTS RTT_US IN_FLIGHT   an acknowledgement; IN_FLIGHT segments when it was sent
 *   loss NOW_US | recovered NOW_US         fast recovery begins and ends
 *   timeout NOW_US                         the retransmission timer
 *   undo NOW_US                            the last reduction was unfounded
 *   window CWND SSTHRESH                   sets both
 *   root VALUE                             cube root of cubic05.c
 */
#define HOWDAH_USER_SPACE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../howdah_tcp.h"
#include ALGORITHM

#define MSS 1448

static struct tcp_sock connection = {
	.snd_cwnd = 10,
	.snd_ssthresh = 0x7fffffff,
	.snd_cwnd_clamp = 0xffffffff,
	.mss_cache = MSS,
	.is_cwnd_limited = true,
};
static struct sock *const sk = (struct sock *)&connection;

u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 window = least((u64)tp->snd_cwnd + acked, tp->snd_ssthresh);

	acked -= window - tp->snd_cwnd;
	tp->snd_cwnd = least(window, tp->snd_cwnd_clamp);
	return acked;
}

u32 tcp_reno_undo_cwnd(struct sock *of)
{
	return most(tcp_of(of)->snd_cwnd, tcp_of(of)->prior_cwnd);
}

static void enter(u8 state)
{
	if (howdah_ops.set_state)
		howdah_ops.set_state(sk, state);
	connection.connection.icsk_ca_state = state;
}

static void acknowledge(u32 segments, s32 rtt_us, u32 in_flight)
{
	const struct ack_sample sample = { segments, rtt_us, in_flight * MSS };
	u32 state = connection.connection.icsk_ca_state;

	if (howdah_ops.pkts_acked)
		howdah_ops.pkts_acked(sk, &sample);
	if (state != TCP_CA_CWR && state != TCP_CA_Recovery)
		howdah_ops.cong_avoid(sk, 0, segments);
}

static u32 prior_ssthresh;

static void reduce(void)
{
	connection.prior_cwnd = connection.snd_cwnd;
	prior_ssthresh = most(connection.snd_ssthresh, connection.snd_cwnd * 3ULL / 4);
	connection.snd_ssthresh = howdah_ops.ssthresh(sk);
}

int main(void)
{
	char event[16];

	if (howdah_ops.init)
		howdah_ops.init(sk);
	while (scanf("%15s", event) == 1) {
		u64 now = 0;

		if (!strcmp(event, "root")) {
			if (scanf("%" SCNu64, &now) != 1)
				return 1;
#ifdef ROOT_STEPS
			printf("%" PRIu64 " 0\n", cube_root(now));
#endif
			continue;
		}
		if (!strcmp(event, "window")) {
			if (scanf("%u %u", &connection.snd_cwnd, &connection.snd_ssthresh) != 2)
				return 1;
		} else if (scanf("%" SCNu64, &now) != 1) {
			return 1;
		} else {
			connection.tcp_mstamp = now;
		}
		if (!strcmp(event, "ack")) {
			u32 segments, in_flight;
			s32 rtt_us;

			if (scanf("%u %d %u", &segments, &rtt_us, &in_flight) != 3)
				return 1;
			acknowledge(segments, rtt_us, in_flight);
		} else if (!strcmp(event, "loss")) {
			reduce();
			connection.snd_cwnd = connection.snd_ssthresh;
			enter(TCP_CA_Recovery);
		} else if (!strcmp(event, "recovered")) {
			connection.snd_cwnd = connection.snd_ssthresh;
			enter(TCP_CA_Open);
		} else if (!strcmp(event, "timeout")) {
			if (connection.connection.icsk_ca_state <= TCP_CA_Disorder)
				reduce();
			connection.snd_cwnd = 1;
			enter(TCP_CA_Loss);
		} else if (!strcmp(event, "refilled")) {
			enter(TCP_CA_Open);
		} else if (!strcmp(event, "undo")) {
			connection.snd_cwnd = howdah_ops.undo_cwnd(sk);
			connection.snd_ssthresh = most(connection.snd_ssthresh, prior_ssthresh);
			enter(TCP_CA_Open);
		}
		printf("%u %u\n", connection.snd_cwnd, connection.snd_ssthresh);
	}
	return 0;
}
