/* Forwarding between two ports in XDP: each frame goes from one port to the other, and no packet of the kernel is made.

   The kernel's own routes and neighbours decide (bpf_fib_lookup), so forwarding must be on. What is not plain forwarding
   is passed to the kernel, which does as it does without the program: ARP and neighbour discovery, the port's own
   addresses, a next hop that is not known yet, an expired TTL, options, wrong headers, packets above the MTU. Unlike the
   kernel, it does not drop packets whose source is an address of its own.
   `xdp_inside` and `xdp_outside` are for the two ports. `xdp_pass` is for the other end of a veth, which takes redirected
   frames only if it has a program, too.

   SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
   The kernel lets only programs under the GPL ask for routes. */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { INSIDE, OUTSIDE, N_PORTS };
enum { CROSSED, TO_KERNEL, N_COUNTERS };
enum { IPV4_FAMILY = 2, IPV6_FAMILY = 10 }; /* AF_INET and AF_INET6; their header is not for BPF */

struct port {
    __u32 index;
    __u8 address[ETH_ALEN];
    __u8 least_ttl, most_ttl; /* of the packets to count, as they leave */
};

struct reading {
    __u64 packets, bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, N_PORTS);
    __type(key, __u32);
    __type(value, struct port);
} ports SEC(".maps");

/* Of the packets that come from the inside; bytes from the IP header on, as nftables counts them. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, N_COUNTERS);
    __type(key, __u32);
    __type(value, struct reading);
} counters SEC(".maps");

static __always_inline void count(__u32 counter, __u64 bytes)
{
    struct reading *reading = bpf_map_lookup_elem(&counters, &counter);
    if (reading) {
        reading->packets++;
        reading->bytes += bytes;
    }
}

static __always_inline int is_right(const struct iphdr *ip)
{
    const __u16 *words = (const __u16 *)ip;
    __u32 sum = 0;
#pragma unroll
    for (int i = 0; i < 10; i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16)(sum + (sum >> 16)) == 0xffff;
}

/* Whether no router forwards packets of this source: its own network (0/8), loopback, multicast, broadcast. */
static __always_inline int is_no_source(__u32 address)
{
    __u8 first = bpf_ntohl(address) >> 24;
    return first == 0 || first == 127 || first >= 224;
}

/* Whether it is unspecified or loopback (::, ::1), multicast (ff00::/8) or link-local (fe80::/10). */
static __always_inline int stays_on_link(const struct in6_addr *address)
{
    const __u32 *words = address->in6_u.u6_addr32;
    __u32 first = bpf_ntohl(words[0]);
    return first >> 24 == 0xff || first >> 22 == 0xfe80 >> 6 ||
           (words[0] == 0 && words[1] == 0 && words[2] == 0 && bpf_ntohl(words[3]) <= 1);
}

/* Asks the kernel's routes about an IPv4 packet that is plain; returns its length, or 0 for one that is not. */
static __always_inline __u32 plain4(struct iphdr *ip, void *end, struct bpf_fib_lookup *route)
{
    if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->ttl <= 1)
        return 0;
    __u32 length = bpf_ntohs(ip->tot_len);
    if (length < sizeof(*ip) || length > end - (void *)ip || is_no_source(ip->saddr) || !is_right(ip))
        return 0;
    route->family = IPV4_FAMILY;
    route->tos = ip->tos;
    route->l4_protocol = ip->protocol;
    route->tot_len = length;
    route->ipv4_src = ip->saddr;
    route->ipv4_dst = ip->daddr;
    return length;
}

static __always_inline __u32 plain6(struct ipv6hdr *ip, void *end, struct bpf_fib_lookup *route)
{
    if ((void *)(ip + 1) > end || ip->version != 6 || ip->nexthdr == IPPROTO_HOPOPTS || ip->hop_limit <= 1)
        return 0;
    __u32 length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
    if (length > end - (void *)ip || stays_on_link(&ip->saddr) || stays_on_link(&ip->daddr))
        return 0;
    route->family = IPV6_FAMILY;
    route->flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
    route->l4_protocol = ip->nexthdr;
    route->tot_len = length;
    __builtin_memcpy(route->ipv6_src, &ip->saddr, sizeof(ip->saddr));
    __builtin_memcpy(route->ipv6_dst, &ip->daddr, sizeof(ip->daddr));
    return length;
}

static __always_inline __u8 hop4(struct iphdr *ip)
{
    __u32 check = ip->check + bpf_htons(0x0100); /* RFC 1624, for a TTL that is one less */
    ip->check = check + (check >= 0xffff);
    return --ip->ttl;
}

static __always_inline int same_address(const __u8 *a, const __u8 *b)
{
    const __u16 *x = (const __u16 *)a, *y = (const __u16 *)b;
    return x[0] == y[0] && x[1] == y[1] && x[2] == y[2];
}

static __always_inline int to_kernel(struct xdp_md *frame, __u32 side)
{
    if (side == INSIDE)
        count(TO_KERNEL, frame->data_end - frame->data - sizeof(struct ethhdr));
    return XDP_PASS;
}

static __always_inline int forward(struct xdp_md *frame, __u32 side)
{
    __u32 other_side = side == INSIDE ? OUTSIDE : INSIDE;
    void *end = (void *)(long)frame->data_end;
    struct ethhdr *head = (void *)(long)frame->data;
    struct port *here = bpf_map_lookup_elem(&ports, &side), *there = bpf_map_lookup_elem(&ports, &other_side);
    struct bpf_fib_lookup route = {.ifindex = frame->ingress_ifindex};
    __u32 length = 0;
    if ((void *)(head + 1) > end || !here || !there)
        return XDP_PASS;
    void *packet = head + 1;
    int is_ipv4 = head->h_proto == bpf_htons(ETH_P_IP);
    if (!same_address(head->h_dest, here->address)) /* a switch floods what is for others, too */
        return to_kernel(frame, side);
    if (is_ipv4)
        length = plain4(packet, end, &route);
    else if (head->h_proto == bpf_htons(ETH_P_IPV6))
        length = plain6(packet, end, &route);
    if (!length || bpf_fib_lookup(frame, &route, sizeof(route), 0) != BPF_FIB_LKUP_RET_SUCCESS ||
        route.ifindex != there->index)
        return to_kernel(frame, side);
    __u8 ttl = is_ipv4 ? hop4(packet) : --((struct ipv6hdr *)packet)->hop_limit;
    __builtin_memcpy(head->h_source, route.smac, ETH_ALEN);
    __builtin_memcpy(head->h_dest, route.dmac, ETH_ALEN);
    if (side == INSIDE && here->least_ttl <= ttl && ttl <= here->most_ttl)
        count(CROSSED, length);
    return bpf_redirect(there->index, 0);
}

SEC("xdp")
int xdp_inside(struct xdp_md *frame)
{
    return forward(frame, INSIDE);
}

SEC("xdp")
int xdp_outside(struct xdp_md *frame)
{
    return forward(frame, OUTSIDE);
}

SEC("xdp")
int xdp_pass(struct xdp_md *frame)
{
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
