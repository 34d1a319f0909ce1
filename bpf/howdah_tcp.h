/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What the congestion controls of this directory share: their view of the kernel, and windows
 * with fractions.
 *
 * Each algorithm is one .c file, written from its paper or RFC with the constants of our sans-IO
 * version (crates/howdah-rivals/src/tcp/cc/), so that the simulator and a real kernel can be
 * compared. It keeps its state in the 104 bytes that the kernel gives a congestion control, and
 * computes in unsigned integers: BPF has no floating point, and no signed division before its
 * version 4. The same file compiles for user space against test/kernel.h, where a test compares
 * it with the sans-IO version event by event.
 *
 * Units: windows in segments; times in microseconds; an "_q20" is a number of segments in 1/2^20.
 */
#ifndef HOWDAH_TCP_H
#define HOWDAH_TCP_H

#ifdef HOWDAH_USER_SPACE
#include "test/kernel.h"
#else
/* Newer bpftools declare the kernel's functions in vmlinux.h; older ones do not. We do. */
#define BPF_NO_KFUNC_PROTOTYPES
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
#endif

/* From net/tcp.h and linux/tcp.h, which BTF does not carry: macros. */
#define TCP_CONG_NON_RESTRICTED 1

/* Least slow-start threshold, in segments (RFC 5681 section 3.1). */
#define LEAST_SSTHRESH 2

/* One segment. */
#define ONE_Q20 (1ULL << 20)

/* Bytes of private state of a connection: icsk_ca_priv of Linux 5.13 to 6.18 and later. */
#define PRIVATE_BYTES 104
#define FITS(type) _Static_assert(sizeof(type) <= PRIVATE_BYTES, "private state of 104 bytes")

static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* The connection's private state, zeroed by the kernel before init(). */
static __always_inline void *private_of(struct sock *sk)
{
	return (void *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

/* Now, for the acknowledgement in hand. */
static __always_inline u64 now_us(struct sock *sk)
{
	return tcp_of(sk)->tcp_mstamp;
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* No losses of this window are being repaired (Linux: Open or Disorder). */
static __always_inline bool is_open(struct sock *sk)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;

	return BPF_CORE_READ_BITFIELD(connection, icsk_ca_state) <= TCP_CA_Disorder;
}

/*
 * Whether the window, and not the application or the receiver, holds the sender back: else it
 * must not grow. In slow start half a window in flight is enough (RFC 7661's reason; Linux).
 */
static __always_inline bool cwnd_limited(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/*
 * How many acknowledgements the segments of this one would have been with the receivers of the
 * papers, which acknowledged every second segment. Today's receivers merge what arrives together
 * and acknowledge dozens of segments at once; an algorithm that counts acknowledgements would
 * stand still. An acknowledgement of one segment counts in full.
 */
static __always_inline u32 acks_of(u32 acked)
{
	return (acked + 1) / 2;
}

static __always_inline u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 most(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* The window with its fraction: laws that look at small distances need it. */
static __always_inline u64 window_q20(const struct tcp_sock *tp, u32 fraction_q20)
{
	return tp->snd_cwnd * ONE_Q20 + fraction_q20;
}

/* Adds to the window; *fraction_q20 keeps what is not a whole segment yet. */
static __always_inline void grow(struct tcp_sock *tp, u32 *fraction_q20, u64 parts_q20)
{
	u64 sum = *fraction_q20 + parts_q20;
	u64 window = tp->snd_cwnd + (sum >> 20);

	*fraction_q20 = sum & (ONE_Q20 - 1);
	tp->snd_cwnd = least(window, tp->snd_cwnd_clamp);
}

/* What a loss leaves as threshold and, after recovery, as window. */
static __always_inline u32 threshold(u64 segments)
{
	return most(segments, LEAST_SSTHRESH);
}

#endif
