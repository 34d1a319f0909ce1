/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * HighSpeed TCP: AIMD whose two constants depend on the window.
 *
 * Source: RFC 3649 (S. Floyd, 2003). Per acknowledged segment w += a(w)/w, per loss event
 * w -= b(w) w; at 38 segments and below it is Reno. a and b come from the table of appendix B:
 * in row k = 1..72 a = k, and b is held in 1/256.
 */
#include "howdah_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

struct row {
	/* Largest window of the row, in segments. */
	u32 top;
	/* b in 1/256. */
	u32 decrease;
};

#define ROWS 72
static const struct row table[ROWS] = {
	{ 38, 128 },   { 118, 112 },  { 221, 104 },  { 347, 98 },   { 495, 93 },   { 663, 89 },
	{ 851, 86 },   { 1058, 83 },  { 1284, 81 },  { 1529, 78 },  { 1793, 76 },  { 2076, 74 },
	{ 2378, 72 },  { 2699, 71 },  { 3039, 69 },  { 3399, 68 },  { 3778, 66 },  { 4177, 65 },
	{ 4596, 64 },  { 5036, 62 },  { 5497, 61 },  { 5979, 60 },  { 6483, 59 },  { 7009, 58 },
	{ 7558, 57 },  { 8130, 56 },  { 8726, 55 },  { 9346, 54 },  { 9991, 53 },  { 10661, 52 },
	{ 11358, 52 }, { 12082, 51 }, { 12834, 50 }, { 13614, 49 }, { 14424, 48 }, { 15265, 48 },
	{ 16137, 47 }, { 17042, 46 }, { 17981, 45 }, { 18955, 45 }, { 19965, 44 }, { 21013, 43 },
	{ 22101, 43 }, { 23230, 42 }, { 24402, 41 }, { 25618, 41 }, { 26881, 40 }, { 28193, 39 },
	{ 29557, 39 }, { 30975, 38 }, { 32450, 38 }, { 33986, 37 }, { 35586, 36 }, { 37253, 36 },
	{ 38992, 35 }, { 40808, 35 }, { 42707, 34 }, { 44694, 33 }, { 46776, 33 }, { 48961, 32 },
	{ 51258, 32 }, { 53677, 31 }, { 56230, 30 }, { 58932, 30 }, { 61799, 29 }, { 64851, 28 },
	{ 68113, 28 }, { 71617, 27 }, { 75401, 26 }, { 79517, 26 }, { 84035, 25 }, { 89053, 24 },
};

struct hstcp {
	u32 fraction_q20;
};
FITS(struct hstcp);

/* The window's row; beyond the table, the last. A binary search of seven steps. */
static __always_inline u32 row_of(u32 window, const struct hstcp *state)
{
	u32 row = 0;
	u32 step;

	/* What is above a row's end by a fraction is in the next one. */
	if (state->fraction_q20)
		window += 1;

	for (step = 64; step > 0; step /= 2) {
		u32 probe = row + step;

		if (probe < ROWS && window > table[probe - 1].top)
			row = probe;
	}
	return row;
}

SEC("struct_ops")
void BPF_PROG(hstcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct hstcp *state = private_of(sk);
	u32 window = tp->snd_cwnd;

	if (!cwnd_limited(sk) || window == 0)
		return;
	if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	grow(tp, &state->fraction_q20, (row_of(window, state) + 1) * ONE_Q20 * acked / window);
}

SEC("struct_ops")
u32 BPF_PROG(hstcp_ssthresh, struct sock *sk)
{
	u32 window = tcp_of(sk)->snd_cwnd;
	u32 row = row_of(window, private_of(sk));

	if (row >= ROWS)
		row = ROWS - 1;
	return threshold((u64)window * (256 - table[row].decrease) / 256);
}

SEC("struct_ops")
u32 BPF_PROG(hstcp_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops howdah_ops = {
	.cong_avoid = (void *)hstcp_cong_avoid,
	.ssthresh = (void *)hstcp_ssthresh,
	.undo_cwnd = (void *)hstcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_hstcp",
};
