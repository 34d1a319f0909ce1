/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * H-TCP: growth by the time since the last loss, reduction by the share of the queue in the RTT.
 *
 * Sources: D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet
 * 2004, and draft-leith-tcp-htcp-06, with all three options as Linux has had them on by default.
 * With D the seconds since the last congestion event ended:
 *
 *   f(D) = 1                                     D <= 1
 *          1 + 10 (D - 1) + ((D - 1)/2)^2        D > 1
 *   alpha = 2 (1 - beta) max(f / s, 1)           segments per round trip
 *   s = clamp(100 ms / minRTT, 0.5, 10)          RTT scaling
 *   beta = clamp(minRTT / maxRTT, 0.5, 102/128)  adaptive backoff
 *
 * beta is 0.5 until one event has passed, if minRTT is at most 10 ms, and if the highest throughput
 * of this epoch differs from the last one's by more than a fifth (bandwidth switch). maxRTT is taken
 * outside recovery only, rises by 20 ms at most for one sample, and forgets 5 % of its excess over
 * minRTT at each event.
 */
#include "howdah_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define ONE_Q16 (1ULL << 16)
#define LEAST_BETA_Q16 (ONE_Q16 / 2)
#define MOST_BETA_Q16 (ONE_Q16 * 102 / 128)
#define RENO_US 1000000
/* f is not computed beyond: 1000 s are 260 000 segments per round trip. */
#define MOST_SECONDS_MS 1000000
/* The RTT at which scaling changes nothing, and those between which it acts. */
#define REFERENCE_RTT_US 100000
#define LEAST_SCALED_RTT_US (REFERENCE_RTT_US / 10)
#define MOST_SCALED_RTT_US (REFERENCE_RTT_US * 2)
/* Paths shorter than this get no adaptive backoff. */
#define ADAPTIVE_ABOVE_US 10000
#define MAX_RTT_STEP_US 20000
/* A throughput is held in 1/16 segment per second: up to 268 million segments per second. */
#define RATE_UNIT 16

struct htcp {
	/* End of the last congestion event; before the first, the start. */
	u64 last_event_us;
	/* Throughput is measured since then ... */
	u64 since_us;
	/* ... for so many segments. */
	u32 segments;
	/* Throughput of this epoch, and the highest of the last. */
	u32 smoothed_rate;
	u32 most_rate;
	u32 last_epoch_rate;
	u32 least_rtt_us;
	u32 most_rtt_us;
	u32 alpha_q16;
	u32 beta_q16;
	u32 fraction_q20;
	/* As they were before the last reduction, should it prove unfounded. */
	u32 before_most_rtt_us;
	u64 before_last_event_us;
	u32 before_last_epoch_rate;
	/* An event has passed under steady throughput: beta may follow the queue. */
	u8 adaptive;
	u8 in_event;
	u8 may_undo;
};
FITS(struct htcp);

static __always_inline void update_alpha(struct htcp *state, u64 now)
{
	u64 since = state->last_event_us ? now - state->last_event_us : 0;
	u64 factor = ONE_Q16;
	u64 alpha;

	if (since > RENO_US) {
		u64 beyond_ms = least((since - RENO_US) / 1000, MOST_SECONDS_MS);

		factor += 10 * ONE_Q16 * beyond_ms / 1000;
		factor += beyond_ms * beyond_ms * ONE_Q16 / 4000000;
	}
	if (state->least_rtt_us) {
		u64 rtt = most(state->least_rtt_us, LEAST_SCALED_RTT_US);

		factor = factor * least(rtt, MOST_SCALED_RTT_US) / REFERENCE_RTT_US;
		factor = most(factor, ONE_Q16);
	}
	alpha = 2 * factor * (ONE_Q16 - state->beta_q16) / ONE_Q16;
	state->alpha_q16 = least(alpha, 0xffffffff);
}

static __always_inline void update_beta(struct htcp *state)
{
	u64 before = state->last_epoch_rate;
	u64 now = state->most_rate;
	u64 change = now > before ? now - before : before - now;

	state->last_epoch_rate = now;
	state->beta_q16 = LEAST_BETA_Q16;
	if (change * 5 > before) {
		state->adaptive = 0;
		return;
	}
	if (state->adaptive && state->least_rtt_us > ADAPTIVE_ABOVE_US && state->most_rtt_us) {
		u64 ratio = state->least_rtt_us * ONE_Q16 / state->most_rtt_us;

		state->beta_q16 = least(most(ratio, LEAST_BETA_Q16), MOST_BETA_Q16);
	} else {
		state->adaptive = 1;
	}
}

/* Counts an acknowledgement; takes a sample once a window and a least RTT have passed. */
static __always_inline void measure_rate(struct htcp *state, u64 now, u32 acked, u32 window)
{
	u32 needed = most(state->alpha_q16, ONE_Q16) / ONE_Q16;
	u64 elapsed, sample;

	if (!state->since_us)
		state->since_us = now;
	state->segments += acked;
	elapsed = now - state->since_us;
	if (state->segments + needed < window || elapsed < state->least_rtt_us || !elapsed)
		return;
	sample = (u64)state->segments * (RATE_UNIT * 1000000ULL) / elapsed;
	if (now - state->last_event_us < 4ULL * state->least_rtt_us) {
		state->smoothed_rate = sample;
		state->most_rate = sample;
	} else {
		state->smoothed_rate = (3ULL * state->smoothed_rate + sample) / 4;
		state->most_rate = most(state->most_rate, state->smoothed_rate);
	}
	state->segments = 0;
	state->since_us = now;
}

SEC("struct_ops")
void BPF_PROG(htcp_init, struct sock *sk)
{
	struct htcp *state = private_of(sk);

	state->alpha_q16 = ONE_Q16;
	state->beta_q16 = LEAST_BETA_Q16;
}

SEC("struct_ops")
void BPF_PROG(htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct htcp *state = private_of(sk);
	u64 now = now_us(sk);
	s32 sampled = sample->rtt_us;
	bool open = is_open(sk);

	if (!state->last_event_us)
		state->last_event_us = now;
	if (sampled > 0) {
		u32 rtt = sampled;

		if (!state->least_rtt_us || rtt < state->least_rtt_us)
			state->least_rtt_us = rtt;
		if (open) {
			if (state->most_rtt_us < state->least_rtt_us)
				state->most_rtt_us = state->least_rtt_us;
			if (rtt > state->most_rtt_us && rtt <= state->most_rtt_us + MAX_RTT_STEP_US)
				state->most_rtt_us = rtt;
		}
	}
	if (!state->least_rtt_us)
		return;
	if (open) {
		measure_rate(state, now, sample->pkts_acked, tcp_of(sk)->snd_cwnd);
	} else {
		state->segments = 0;
		state->since_us = now;
	}
}

SEC("struct_ops")
void BPF_PROG(htcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct htcp *state = private_of(sk);
	u32 window = tp->snd_cwnd;

	if (!cwnd_limited(sk) || window == 0)
		return;
	if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	update_alpha(state, now_us(sk));
	grow(tp, &state->fraction_q20,
	     state->alpha_q16 * (ONE_Q20 / ONE_Q16) * acked / window);
}

SEC("struct_ops")
u32 BPF_PROG(htcp_ssthresh, struct sock *sk)
{
	struct htcp *state = private_of(sk);
	u64 window = tcp_of(sk)->snd_cwnd;
	u64 now = now_us(sk);

	state->before_last_event_us = state->last_event_us;
	state->before_most_rtt_us = state->most_rtt_us;
	state->before_last_epoch_rate = state->last_epoch_rate;
	state->may_undo = 1;
	update_beta(state);
	update_alpha(state, now);
	if (state->most_rtt_us > state->least_rtt_us)
		state->most_rtt_us = state->least_rtt_us +
			(u64)(state->most_rtt_us - state->least_rtt_us) * 95 / 100;
	state->last_event_us = now;
	state->in_event = 1;
	return threshold(window * state->beta_q16 / ONE_Q16);
}

SEC("struct_ops")
void BPF_PROG(htcp_set_state, struct sock *sk, u8 new_state)
{
	struct htcp *state = private_of(sk);

	if (new_state == TCP_CA_Loss) {
		state->last_event_us = now_us(sk);
	} else if (new_state == TCP_CA_Open && state->in_event) {
		/* Time counts from the end of the event. */
		state->in_event = 0;
		state->last_event_us = now_us(sk);
	}
}

SEC("struct_ops")
u32 BPF_PROG(htcp_undo_cwnd, struct sock *sk)
{
	struct htcp *state = private_of(sk);

	if (state->may_undo) {
		state->may_undo = 0;
		state->in_event = 0;
		state->last_event_us = state->before_last_event_us;
		state->most_rtt_us = state->before_most_rtt_us;
		state->last_epoch_rate = state->before_last_epoch_rate;
	}
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops howdah_ops = {
	.init = (void *)htcp_init,
	.pkts_acked = (void *)htcp_pkts_acked,
	.cong_avoid = (void *)htcp_cong_avoid,
	.ssthresh = (void *)htcp_ssthresh,
	.set_state = (void *)htcp_set_state,
	.undo_cwnd = (void *)htcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_htcp",
};
