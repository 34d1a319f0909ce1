/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * BIC: binary search for the window at which the last loss happened.
 *
 * Source: L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control for fast long-distance
 * networks", INFOCOM 2004, with the constants of the Linux of 2004-05, which differ from the
 * paper's (there S_max 32, S_min 0.01, 0.125 off per loss) and are those of our sans-IO version:
 *
 * - a loss leaves 819/1024 of the window and remembers the window as last_max; if that is lower
 *   than the time before, (1 + 819/1024)/2 of it (fast convergence). Up to 14 segments: Reno.
 * - growth per round trip with d = (last_max - window)/4: 16 if d > 16; 1/5 if d <= 1; else d.
 * - above last_max: 1/5 within 4 segments of it, a third of the distance up to 48 segments from
 *   it, 16 beyond.
 * - before the first loss and after a timeout: at least 5 %. Initial threshold 100 segments.
 *
 * Growth counts acknowledged segments, which is what the historical code estimated by measuring
 * segments per acknowledgement.
 */
#include "howdah_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Kept by a loss, in 1/1024. */
#define BETA_1024 819
/* B of the paper: the search goes to a B-th of the distance. */
#define B 4
/* Segments per round trip at most. */
#define MAX_INCREMENT 16
#define LOW_WINDOW 14
/* Round trips from last_max - B to last_max. */
#define SMOOTH_PART 20
/* Before the first loss: segments per added segment at most. */
#define SEGMENTS_PER_SEGMENT_UNTIL_LOSS 20
#define INITIAL_SSTHRESH 100

struct bic {
	/* Window at the last loss; 0 if there was none. */
	u64 last_max_q20;
	u32 fraction_q20;
	u32 lost_before;
};
FITS(struct bic);

/* Segments to add per round trip. */
static __always_inline u64 increment_q20(const struct bic *state, u64 window)
{
	u64 step;

	if (window <= LOW_WINDOW * ONE_Q20)
		return ONE_Q20;
	if (window < state->last_max_q20) {
		step = (state->last_max_q20 - window) / B;
		if (step > MAX_INCREMENT * ONE_Q20)
			step = MAX_INCREMENT * ONE_Q20;
		else if (step <= ONE_Q20)
			step = B * ONE_Q20 / SMOOTH_PART;
	} else {
		u64 beyond = window - state->last_max_q20;

		if (beyond < B * ONE_Q20)
			step = B * ONE_Q20 / SMOOTH_PART;
		else if (beyond < MAX_INCREMENT * (B - 1) * ONE_Q20)
			step = beyond / (B - 1);
		else
			step = MAX_INCREMENT * ONE_Q20;
	}
	if (!state->lost_before)
		step = most(step, window / SEGMENTS_PER_SEGMENT_UNTIL_LOSS);
	return step;
}

SEC("struct_ops")
void BPF_PROG(bic_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	tp->snd_ssthresh = least(tp->snd_ssthresh, INITIAL_SSTHRESH);
}

SEC("struct_ops")
void BPF_PROG(bic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct bic *state = private_of(sk);
	u32 window = tp->snd_cwnd;
	u64 step;

	if (!cwnd_limited(sk) || window == 0)
		return;
	if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	step = increment_q20(state, window_q20(tp, state->fraction_q20));
	/* One segment for each acknowledged one at most. */
	grow(tp, &state->fraction_q20, least(step, window * ONE_Q20) * acked / window);
}

SEC("struct_ops")
u32 BPF_PROG(bic_ssthresh, struct sock *sk)
{
	struct bic *state = private_of(sk);
	u64 window = window_q20(tcp_of(sk), state->fraction_q20);

	state->last_max_q20 =
		window < state->last_max_q20 ? window / 2048 * (1024 + BETA_1024) : window;
	state->lost_before = 1;
	window = window <= LOW_WINDOW * ONE_Q20 ? window / 2 : window / 1024 * BETA_1024;
	return threshold(window / ONE_Q20);
}

SEC("struct_ops")
void BPF_PROG(bic_set_state, struct sock *sk, u8 new_state)
{
	struct bic *state = private_of(sk);

	/* A timeout makes it forget everything. */
	if (new_state == TCP_CA_Loss) {
		state->last_max_q20 = 0;
		state->lost_before = 0;
	}
}

SEC("struct_ops")
u32 BPF_PROG(bic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops howdah_ops = {
	.init = (void *)bic_init,
	.cong_avoid = (void *)bic_cong_avoid,
	.ssthresh = (void *)bic_ssthresh,
	.set_state = (void *)bic_set_state,
	.undo_cwnd = (void *)bic_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_bic",
};
