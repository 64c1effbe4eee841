/* A router with two ports in user space. It takes each IPv4 packet of one port, lowers its TTL, and sends it on.

   Lastro sets the variables LASTRO_IN, LASTRO_OUT and others (see docs/howto-own-function.md). The header of virtio in
   front of each packet says which checksums and segments are still to be completed, as the links of a host leave them. */

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct port {
    int socket;
    struct ether_addr own, next;
    in_addr_t address;
};

static const char *variable(const char *side, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "LASTRO_%s%s", side, what);
    const char *value = getenv(name);
    if (!value || !*value) {
        fprintf(stderr, "%s is not set\n", name);
        exit(1);
    }
    return value;
}

static void open_port(struct port *port, const char *side) {
    int yes = 1;
    struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
    char address[64];
    snprintf(address, sizeof address, "%s", variable(side, "_ADDRESS"));
    *strchrnul(address, '/') = 0;
    port->address = inet_addr(address);
    ether_aton_r(variable(side, "_MAC"), &port->own);
    ether_aton_r(variable(side, "_NEXT_MAC"), &port->next);
    link.sll_ifindex = if_nametoindex(variable(side, ""));
    port->socket = socket(AF_PACKET, SOCK_RAW, 0);
    if (port->socket < 0 || setsockopt(port->socket, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes) ||
        setsockopt(port->socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes) ||
        bind(port->socket, (struct sockaddr *)&link, sizeof link)) {
        perror("a port cannot be opened");
        exit(1);
    }
}

static void pass(struct port *from, struct port *to) {
    static unsigned char data[sizeof(struct virtio_net_hdr) + 1 << 17];
    ssize_t size = recv(from->socket, data, sizeof data, 0);
    struct ether_header *ether = (void *)(data + sizeof(struct virtio_net_hdr));
    struct iphdr *ip = (void *)(ether + 1);
    if (size < (ssize_t)(sizeof(struct virtio_net_hdr) + sizeof *ether + sizeof *ip) || ip->ttl <= 1 ||
        memcmp(ether->ether_dhost, &from->own, ETH_ALEN) || ip->daddr == from->address || ip->daddr == to->address)
        return;
    unsigned sum = ntohs(ip->check) + 0x100; /* RFC 1141 */
    ip->check = htons(sum + (sum >> 16));
    ip->ttl--;
    memcpy(ether->ether_shost, &to->own, ETH_ALEN);
    memcpy(ether->ether_dhost, &to->next, ETH_ALEN);
    send(to->socket, data, size, 0);
}

int main(void) {
    struct port ports[2];
    open_port(&ports[0], "IN");
    open_port(&ports[1], "OUT");
    struct pollfd waiting[2] = {{ports[0].socket, POLLIN, 0}, {ports[1].socket, POLLIN, 0}};
    puts("forwarding");
    fflush(stdout);
    while (poll(waiting, 2, -1) > 0)
        for (int side = 0; side < 2; side++)
            if (waiting[side].revents & POLLIN)
                pass(&ports[side], &ports[!side]);
    return 1;
}
