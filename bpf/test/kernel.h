/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What the congestion controls see of the kernel, for user space: tests only (drive.c).
 */
#ifndef HOWDAH_TEST_KERNEL_H
#define HOWDAH_TEST_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* For __always_inline. */
#include <sys/cdefs.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;

#define SEC(name)
#define BPF_PROG(name, args...) name(args)
#define BPF_CORE_READ_BITFIELD(from, field) ((from)->field)

enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum tcp_ca_event { CA_EVENT_TX_START, CA_EVENT_CWND_RESTART };

struct sock {
	u32 sk_pacing_status;
};

struct inet_connection_sock {
	struct sock sk;
	u64 icsk_ca_priv[13];
	u32 icsk_ca_state;
};

struct tcp_sock {
	struct inet_connection_sock connection;
	u64 tcp_mstamp;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 snd_cwnd_clamp;
	u32 prior_cwnd;
	u32 max_packets_out;
	u32 mss_cache;
	bool is_cwnd_limited;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 flags;
	char name[16];
};

u32 tcp_slow_start(struct tcp_sock *tp, u32 acked);
u32 tcp_reno_undo_cwnd(struct sock *sk);

#endif
