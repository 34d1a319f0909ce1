/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * FAST TCP: a window that keeps a fixed number of packets in the queue.
 *
 * Sources: C. Jin, D. Wei, S. Low, "FAST TCP: motivation, architecture, algorithms, performance",
 * INFOCOM 2004, and D. Wei et al., IEEE/ACM Trans. Networking 14(6), 2006, for the law; what is known
 * of the ns-2 agent that follows Caltech's Linux code, for what is around it. At most once in an
 * update period, with then = the window of one round trip ago:
 *
 *   w <- min(2 w, (1 - gamma) w + gamma (baseRTT/avgRTT then + alpha)),  gamma = 1/2, alpha = 200
 *
 * - baseRTT is the running minimum without end; avgRTT an average with gain min(3/then, 1/4).
 * - While avgRTT - baseRTT < 0.75 ms the window grows by one segment an acknowledgement (multiplicative
 *   increase), in place of slow start.
 * - The law is applied every 20 ms at most, and in every other round trip only. From baseRTT 4 ms on
 *   an increase is spread over the acknowledgements of a period.
 * - A loss halves the window.
 *
 * Where the law counts acknowledgements, every second segment is one (acks_of()). Two differences from
 * the sans-IO version: after a timeout the kernel restarts from what is in flight and not from 2; and
 * the kernel's own pacing is asked for, because a namespace's device takes a whole window at once, whose
 * head then measures no queue. What was sent at the rate of a gigabit interface is now sent at twice the
 * window per RTT (Linux tcp_pacing_ss_ratio), or at what SO_MAX_PACING_RATE says.
 */
#include "howdah_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Packets to keep in the queue. */
#define ALPHA 200
#define MI_THRESHOLD_US 750
#define UPDATE_INTERVAL_US 20000
#define SPREAD_FROM_US 4000
#define LEAST_WINDOW 2
/* enum sk_pacing of net/sock.h. */
#define PACING_NEEDED 1
/* TCP_INFINITE_SSTHRESH of net/tcp.h. */
#define NO_THRESHOLD 0x7fffffff
/* Longest RTT that the law is computed with, 16 s, and the largest window. */
#define MOST_RTT_US ((1U << 24) - 1)
#define MOST_WINDOW ((1U << 20) - 1)

struct fast {
	/* In 1/2^16 us; 0 before the first sample. */
	u64 avg_rtt_q16;
	u64 round_us;
	u64 updated_us;
	/* What is left of the last increase, and how much of it an acknowledgement adds. */
	u64 to_add_q20;
	u32 per_ack_q20;
	u32 fraction_q20;
	u32 base_rtt_us;
	/* In flight when the segment that is acknowledged now left. */
	u32 window_then;
	u32 acks_in_round;
	u32 acks_in_last_round;
	/* The law rests in this round trip. */
	u32 rests;
};
FITS(struct fast);

static __always_inline u64 queueing_q16(const struct fast *state)
{
	u64 base = (u64)state->base_rtt_us << 16;

	return state->avg_rtt_q16 > base ? state->avg_rtt_q16 - base : 0;
}

static __always_inline void estimate(struct fast *state, u32 rtt)
{
	u64 sample = (u64)rtt << 16;
	/* The gain is 3/divisor. */
	u64 divisor = most(state->window_then, 12);

	if (!state->base_rtt_us || rtt < state->base_rtt_us)
		state->base_rtt_us = rtt;
	if (!state->avg_rtt_q16)
		state->avg_rtt_q16 = sample;
	else if (sample > state->avg_rtt_q16)
		state->avg_rtt_q16 += (sample - state->avg_rtt_q16) * 3 / divisor;
	else
		state->avg_rtt_q16 -= (state->avg_rtt_q16 - sample) * 3 / divisor;
}

/* The window that the law wants in place of window_q10, in 1/2^10 segment as that. */
static __always_inline u64 law_q10(const struct fast *state, u64 window_q10)
{
	u64 then = least(state->window_then, MOST_WINDOW);
	u64 avg = most(state->avg_rtt_q16 >> 8, 1);
	/* At most 2^30 * 2^32. */
	u64 queued_q10 = (then << 10) * (queueing_q16(state) >> 8) / avg;
	u64 target_q10 =
		(window_q10 + (then + ALPHA) * 1024 - least(queued_q10, then << 10)) / 2;

	return most(least(target_q10, window_q10 * 2), LEAST_WINDOW * 1024);
}

static __always_inline void count_round(struct fast *state, u64 now, u32 acks)
{
	if (now - state->round_us > state->avg_rtt_q16 >> 16) {
		state->round_us = now;
		state->acks_in_last_round = state->acks_in_round;
		state->acks_in_round = 0;
		state->rests = !state->rests;
	}
	state->acks_in_round += acks;
}

/* Adds the part of the last increase that belongs to these acknowledgements. */
static __always_inline void add_part(struct tcp_sock *tp, struct fast *state, u32 acks)
{
	/* A tiny window has too few acknowledgements to spread anything over. */
	u64 part = tp->snd_cwnd <= 4 ? tp->snd_cwnd * ONE_Q20 : (u64)state->per_ack_q20 * acks;

	part = least(part, state->to_add_q20);
	state->to_add_q20 -= part;
	grow(tp, &state->fraction_q20, part);
}

static __always_inline void apply(struct tcp_sock *tp, struct fast *state, u64 now_q10,
				  u64 target_q10, u32 acks)
{
	u64 in_period;

	state->to_add_q20 = 0;
	if (target_q10 < now_q10 || state->base_rtt_us < SPREAD_FROM_US) {
		tp->snd_cwnd = least(target_q10 / 1024, tp->snd_cwnd_clamp);
		state->fraction_q20 = target_q10 % 1024 * 1024;
		return;
	}
	in_period = (u64)state->acks_in_last_round * UPDATE_INTERVAL_US /
		most(state->avg_rtt_q16 >> 16, 1);
	state->to_add_q20 = (target_q10 - now_q10) * 1024;
	state->per_ack_q20 = least(state->to_add_q20 / most(in_period, 1), ONE_Q20);
	add_part(tp, state, acks);
}

SEC("struct_ops")
void BPF_PROG(fast_init, struct sock *sk)
{
	if (sk->sk_pacing_status == 0)
		sk->sk_pacing_status = PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(fast_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct fast *state = private_of(sk);
	s32 rtt = sample->rtt_us;
	u32 mss = tcp_of(sk)->mss_cache;

	if (mss)
		state->window_then = sample->in_flight / mss;
	if (rtt > 0)
		estimate(state, least(rtt, MOST_RTT_US));
}

SEC("struct_ops")
void BPF_PROG(fast_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct fast *state = private_of(sk);
	u64 now = now_us(sk);
	u32 acks = acks_of(acked);
	bool may_grow = cwnd_limited(sk);

	if (!acked || !state->avg_rtt_q16)
		return;
	count_round(state, now, acks);
	if (queueing_q16(state) < (u64)MI_THRESHOLD_US << 16) {
		if (may_grow)
			grow(tp, &state->fraction_q20, acks * ONE_Q20);
		state->updated_us = now;
		return;
	}
	if (now - state->updated_us >= UPDATE_INTERVAL_US && !state->rests) {
		u64 window = window_q20(tp, state->fraction_q20) / 1024;
		u64 target = law_q10(state, window);

		if (may_grow || target < window)
			apply(tp, state, window, target, acks);
		state->updated_us = now;
	} else if (may_grow && state->to_add_q20) {
		add_part(tp, state, acks);
	}
}

SEC("struct_ops")
u32 BPF_PROG(fast_ssthresh, struct sock *sk)
{
	struct fast *state = private_of(sk);

	state->updated_us = now_us(sk);
	state->to_add_q20 = 0;
	return threshold(tcp_of(sk)->snd_cwnd / 2);
}

SEC("struct_ops")
void BPF_PROG(fast_set_state, struct sock *sk, u8 new_state)
{
	struct fast *state = private_of(sk);

	/* The first update waits until recovery is over by an interval. */
	state->updated_us = now_us(sk);
	if (new_state == TCP_CA_Open)
		/*
		 * FAST has no slow-start threshold. The kernel needed one for the window that
		 * recovery leaves; now it would only slow the pacing down.
		 */
		tcp_of(sk)->snd_ssthresh = NO_THRESHOLD;
	else if (new_state != TCP_CA_Disorder)
		state->to_add_q20 = 0;
}

SEC("struct_ops")
u32 BPF_PROG(fast_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops howdah_ops = {
	.init = (void *)fast_init,
	.pkts_acked = (void *)fast_pkts_acked,
	.cong_avoid = (void *)fast_cong_avoid,
	.ssthresh = (void *)fast_ssthresh,
	.set_state = (void *)fast_set_state,
	.undo_cwnd = (void *)fast_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_fast",
};
