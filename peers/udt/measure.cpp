// Moves made-up bytes over Debian's libudt, to measure it.
//
//   udt-measure sink ADDRESS PORT MSS WINDOW
//   udt-measure source ADDRESS PORT MSS WINDOW seconds|bytes AMOUNT
//
// MSS is the IP packet in bytes, as UDT counts it; WINDOW the bytes that may be under way. Each end prints
// one JSON object when it is done. The sink ends with its one connection.

#include <arpa/inet.h>
#include <sys/time.h>
#include <udt.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static double now() {
    timeval time;
    gettimeofday(&time, nullptr);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

static int fail(const char* what) {
    fprintf(stderr, "udt-measure: %s: %s\n", what, UDT::getlasterror().getErrorMessage());
    return 1;
}

static bool set_up(UDTSOCKET socket, int mss, int window) {
    // Flight window in packets, and the UDP sockets' own buffers as large as the kernel lets them be.
    int packets = window / (mss - 44) + 25600;
    int udp = 64 << 20;
    linger none = {0, 0};
    return UDT::setsockopt(socket, 0, UDT_MSS, &mss, sizeof mss) != UDT::ERROR &&
           UDT::setsockopt(socket, 0, UDT_FC, &packets, sizeof packets) != UDT::ERROR &&
           UDT::setsockopt(socket, 0, UDT_SNDBUF, &window, sizeof window) != UDT::ERROR &&
           UDT::setsockopt(socket, 0, UDT_RCVBUF, &window, sizeof window) != UDT::ERROR &&
           UDT::setsockopt(socket, 0, UDP_SNDBUF, &udp, sizeof udp) != UDT::ERROR &&
           UDT::setsockopt(socket, 0, UDP_RCVBUF, &udp, sizeof udp) != UDT::ERROR &&
           UDT::setsockopt(socket, 0, UDT_LINGER, &none, sizeof none) != UDT::ERROR;
}

static void print(uint64_t bytes, double seconds, UDTSOCKET socket, int mss) {
    UDT::TRACEINFO info;
    memset(&info, 0, sizeof info);
    UDT::perfmon(socket, &info, false);
    printf("{\"bytes\": %llu, \"seconds\": %.6f, \"retransmitted_packets\": %d, \"packet_bytes\": %d}\n",
           (unsigned long long)bytes, seconds, info.pktRetransTotal, mss - 44);
    fflush(stdout);
}

static int sink(sockaddr_in address, int mss, int window) {
    UDTSOCKET server = UDT::socket(AF_INET, SOCK_STREAM, 0);
    if (!set_up(server, mss, window)) return fail("setsockopt");
    if (UDT::bind(server, (sockaddr*)&address, sizeof address) == UDT::ERROR) return fail("bind");
    if (UDT::listen(server, 1) == UDT::ERROR) return fail("listen");
    sockaddr_in from{};
    int size = sizeof from;
    UDTSOCKET socket = UDT::accept(server, (sockaddr*)&from, &size);
    if (socket == UDT::INVALID_SOCK) return fail("accept");
    std::vector<char> block(1 << 20);
    uint64_t bytes = 0;
    double start = now();
    for (;;) {
        int got = UDT::recv(socket, block.data(), block.size(), 0);
        if (got == UDT::ERROR) break;
        bytes += got;
    }
    print(bytes, now() - start, socket, mss);
    UDT::close(socket);
    return 0;
}

static int source(sockaddr_in address, int mss, int window, bool timed, double amount) {
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    if (!set_up(socket, mss, window)) return fail("setsockopt");
    if (UDT::connect(socket, (sockaddr*)&address, sizeof address) == UDT::ERROR) return fail("connect");
    std::vector<char> block(1 << 20, 0x5a);
    // So that a full buffer does not hold us beyond the end.
    int patience_ms = 100;
    UDT::setsockopt(socket, 0, UDT_SNDTIMEO, &patience_ms, sizeof patience_ms);
    uint64_t bytes = 0, all = timed ? UINT64_MAX : static_cast<uint64_t>(amount);
    double start = now(), end = timed ? start + amount : start + 1e9;
    while (bytes < all && now() < end) {
        size_t want = all - bytes < block.size() ? all - bytes : block.size();
        int sent = UDT::send(socket, block.data(), want, 0);
        if (sent == UDT::ERROR) {
            if (UDT::getlasterror().getErrorCode() == CUDTException::ETIMEOUT) continue;
            return fail("send");
        }
        bytes += sent;
    }
    if (!timed) {
        // Until everything is acknowledged.
        linger all_of_it = {1, 3600};
        UDT::setsockopt(socket, 0, UDT_LINGER, &all_of_it, sizeof all_of_it);
        // What is sent again meanwhile counts as well, and after closing nobody tells.
        for (int left = 1, size = sizeof left; left > 0;) {
            if (UDT::getsockopt(socket, 0, UDT_SNDDATA, &left, &size) == UDT::ERROR) break;
            if (left > 0) usleep(1000);
        }
    }
    UDT::TRACEINFO info;
    memset(&info, 0, sizeof info);
    UDT::perfmon(socket, &info, false);
    UDT::close(socket);
    printf("{\"bytes\": %llu, \"seconds\": %.6f, \"retransmitted_packets\": %d, \"packet_bytes\": %d}\n",
           (unsigned long long)bytes, now() - start, info.pktRetransTotal, mss - 44);
    return 0;
}

int main(int argc, char** argv) {
    bool is_sink = argc == 6 && strcmp(argv[1], "sink") == 0;
    bool is_source = argc == 8 && strcmp(argv[1], "source") == 0;
    if (!is_sink && !is_source) {
        fprintf(stderr,
                "usage: udt-measure sink ADDRESS PORT MSS WINDOW\n"
                "       udt-measure source ADDRESS PORT MSS WINDOW seconds|bytes AMOUNT\n");
        return 2;
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(argv[3]));
    if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
        fprintf(stderr, "udt-measure: '%s' is no IPv4 address\n", argv[2]);
        return 2;
    }
    UDT::startup();
    int mss = atoi(argv[4]), window = atoi(argv[5]);
    int status = is_sink ? sink(address, mss, window)
                         : source(address, mss, window, strcmp(argv[6], "seconds") == 0, atof(argv[7]));
    UDT::cleanup();
    return status;
}
