/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Scalable TCP: multiplicative increase, so that the time to recover does not depend on the rate.
 *
 * Source: T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks", ACM
 * CCR 33(2), 2003. Above the legacy window of 16 segments each acknowledged segment adds 0.01 and
 * a loss event takes 1/8; at and below it, Reno.
 */
#include "howdah_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define LEGACY_WINDOW 16
/* Acknowledged segments for one more: 1/0.01. */
#define SEGMENTS_PER_SEGMENT 100

struct scalable {
	u32 fraction_q20;
};
FITS(struct scalable);

SEC("struct_ops")
void BPF_PROG(scalable_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct scalable *state = private_of(sk);
	u32 window = tp->snd_cwnd;

	if (!cwnd_limited(sk) || window == 0)
		return;
	if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	if (window > LEGACY_WINDOW)
		grow(tp, &state->fraction_q20, ONE_Q20 * acked / SEGMENTS_PER_SEGMENT);
	else
		grow(tp, &state->fraction_q20, ONE_Q20 * acked / window);
}

SEC("struct_ops")
u32 BPF_PROG(scalable_ssthresh, struct sock *sk)
{
	u64 window = tcp_of(sk)->snd_cwnd;

	return threshold(window > LEGACY_WINDOW ? window * 7 / 8 : window / 2);
}

SEC("struct_ops")
u32 BPF_PROG(scalable_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops howdah_ops = {
	.cong_avoid = (void *)scalable_cong_avoid,
	.ssthresh = (void *)scalable_ssthresh,
	.undo_cwnd = (void *)scalable_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_scalable",
};
