/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * CUBIC as its paper has it: I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant",
 * PFLDnet 2005. (The kernel's own `cubic` is today's: beta 0.7, no limit on growth, HyStart.)
 *
 * The target is the curve one least RTT ahead, W = 0.4 (t + minRTT - K)^3 + origin with t in
 * seconds, and per round trip the window grows by target - window, by 1/100 if it is there already,
 * and by 160 segments a second at most (S_max). Where a Reno with the same decrease would be faster
 * (it grows by 3 (1 - beta)/(1 + beta) = 1/3 per window of acknowledgements) it follows that. A loss
 * leaves beta = 0.8; fast convergence as in BIC; a timeout makes it forget everything. Least RTTs of
 * the first second after a loss are not used. No HyStart, no initial threshold.
 */
#include "howdah_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Kept by a loss: 4/5. */
#define BETA_NUMERATOR 4
#define BETA_DENOMINATOR 5
/* S_max: 160 segments per second, for 1 us in 1/2^20 segment is 160 * 2^20 / 10^6. */
#define MOST_PER_SECOND 160
/* Least growth: one segment in so many windows. */
#define ROUNDS_PER_SEGMENT_AT_TARGET 100
#define SETTLING_US 1000000
/* 0.4 d^3 / 10^9 with d in milliseconds, in 1/1024 segment, is d^3 / 2441406. */
#define CUBE_TO_Q10 2441406
/* Longest distance from the flat part that is told apart: its cube fits 64 bits. */
#define MOST_MS 1000000

struct cubic05 {
	/* Start of this stretch of congestion avoidance; 0 if there is none. */
	u64 epoch_us;
	/* Window of a Reno with the same decrease. */
	u64 reno_q20;
	u64 origin_q20;
	/* Window at the last loss; 0 if there was none. */
	u64 last_max_q20;
	u32 k_ms;
	u32 least_rtt_us;
	u32 fraction_q20;
};
FITS(struct cubic05);

/*
 * cbrt(value), value < 2^63, to within 1: Newton's iteration from above. A third is shed at each step
 * until it is near, then the digits double: 48 steps suffice from 2^21. There is no branch in it, since
 * the verifier walks every combination of branches.
 */
#define ROOT_STEPS 48
static __always_inline u64 cube_root(u64 value)
{
	u64 root = 1ULL << 21;
	int step;

	if (!value)
		return 0;
	for (step = 0; step < ROOT_STEPS; step++)
		root = (2 * root + value / (root * root)) / 3;
	return root;
}

/* Time from a window this far below the origin to the origin: cbrt(distance / 0.4 s^3), in ms. */
static __always_inline u32 k_ms_of(u64 distance_q20)
{
	/* In 1/64 segment, so that 2^31 segments fit. */
	return cube_root((distance_q20 >> 14) * (2500000000ULL / 64));
}

/* Segments to add per round trip. */
static __always_inline u64 increment_q20(struct sock *sk, struct cubic05 *state, u64 window,
					 u32 acked)
{
	u64 now = now_us(sk);
	u64 at_ms, off_ms, off_q20, target;
	u64 step = ONE_Q20 / ROUNDS_PER_SEGMENT_AT_TARGET;

	if (!state->epoch_us) {
		state->epoch_us = now;
		state->origin_q20 = most(state->last_max_q20, window);
		state->k_ms = k_ms_of(state->origin_q20 - window);
		state->reno_q20 = window;
	}
	at_ms = (now - state->epoch_us + state->least_rtt_us) / 1000;
	off_ms = at_ms > state->k_ms ? at_ms - state->k_ms : state->k_ms - at_ms;
	off_ms = least(off_ms, MOST_MS);
	off_q20 = off_ms * off_ms * off_ms / CUBE_TO_Q10 * (ONE_Q20 / 1024);
	target = state->origin_q20;
	if (at_ms > state->k_ms)
		target += off_q20;
	else
		target -= least(off_q20, target);
	if (target > window)
		step = most(step, target - window);
	if (state->least_rtt_us)
		step = least(step, state->least_rtt_us * (MOST_PER_SECOND * ONE_Q20) / 1000000);

	state->reno_q20 += ONE_Q20 / 3 * acks_of(acked) / most(window / ONE_Q20, 1);
	if (state->reno_q20 > window)
		step = most(step, state->reno_q20 - window);
	return step;
}

static __always_inline void forget(struct cubic05 *state)
{
	state->epoch_us = 0;
	state->last_max_q20 = 0;
	state->least_rtt_us = 0;
}

SEC("struct_ops")
void BPF_PROG(cubic05_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct cubic05 *state = private_of(sk);
	u32 window = tp->snd_cwnd;
	u64 step;

	if (!cwnd_limited(sk) || window == 0)
		return;
	if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	step = increment_q20(sk, state, window_q20(tp, state->fraction_q20), acked);
	/* One segment for each acknowledged one at most. */
	grow(tp, &state->fraction_q20, least(step, window * ONE_Q20) * acked / window);
}

SEC("struct_ops")
u32 BPF_PROG(cubic05_ssthresh, struct sock *sk)
{
	struct cubic05 *state = private_of(sk);
	u64 before = state->last_max_q20;
	u64 window = window_q20(tcp_of(sk), state->fraction_q20);

	state->last_max_q20 = window;
	if (window < before)
		state->last_max_q20 =
			window * (BETA_DENOMINATOR + BETA_NUMERATOR) / (2 * BETA_DENOMINATOR);
	state->epoch_us = 0;
	return threshold(window * BETA_NUMERATOR / BETA_DENOMINATOR / ONE_Q20);
}

SEC("struct_ops")
void BPF_PROG(cubic05_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		forget(private_of(sk));
}

SEC("struct_ops")
void BPF_PROG(cubic05_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct cubic05 *state = private_of(sk);

	/* The curve was about the window that is given up after an idle time. */
	if (event == CA_EVENT_CWND_RESTART)
		state->epoch_us = 0;
}

SEC("struct_ops")
void BPF_PROG(cubic05_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct cubic05 *state = private_of(sk);
	s32 rtt = sample->rtt_us;

	if (rtt <= 0 || (state->epoch_us && now_us(sk) - state->epoch_us < SETTLING_US))
		return;
	if (!state->least_rtt_us || (u32)rtt < state->least_rtt_us)
		state->least_rtt_us = rtt;
}

SEC("struct_ops")
u32 BPF_PROG(cubic05_undo_cwnd, struct sock *sk)
{
	struct cubic05 *state = private_of(sk);

	state->epoch_us = 0;
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops howdah_ops = {
	.cong_avoid = (void *)cubic05_cong_avoid,
	.ssthresh = (void *)cubic05_ssthresh,
	.set_state = (void *)cubic05_set_state,
	.cwnd_event = (void *)cubic05_cwnd_event,
	.pkts_acked = (void *)cubic05_pkts_acked,
	.undo_cwnd = (void *)cubic05_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_cubic05",
};
