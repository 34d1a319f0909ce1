// The other side of the wire-compatibility test: moves a made-up object over Debian's libudt.
//
//   udt-peer send|recv listen|connect [ADDRESS:]PORT BYTES MSS [SECONDS [WRITE [MBPS]]]
//
// A listener takes any port for 0 and says which: "port N"; without an address it is the loopback's. At the end: "done
// BYTES HASH", where the hash is FNV-1a (64 bits) of the bytes in order. The object is SplitMix64 of 0, 1, 2, ...,
// little-endian.
//
// With SECONDS it measures instead: a sender writes blocks of WRITE bytes (100000) for so long, at MBPS at most, each
// side prints what the library says of itself every half second ("at SECONDS NAME VALUE ..."), and nothing is hashed.
// At the end each thread's processor time in seconds: "thread NUMBER user SECONDS system SECONDS" (1: the application, 2:
// the collector of closed sockets, 3: the sending queue, which spins between packets, 4: the receiving queue).

#include <arpa/inet.h>
#include <dirent.h>
#include <udt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

static uint64_t word(uint64_t at) {
    uint64_t z = (at + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static uint64_t hash(uint64_t state, const char* bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        state = (state ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3ULL;
    }
    return state;
}

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int fail(const char* what) {
    fprintf(stderr, "udt-peer: %s: %s\n", what, UDT::getlasterror().getErrorMessage());
    return 1;
}

static int move(UDTSOCKET socket, bool sends, uint64_t bytes) {
    // What the library's own appclient writes at once.
    std::vector<char> block(100000);
    uint64_t state = 0xcbf29ce484222325ULL;
    uint64_t done = 0;
    while (done < bytes) {
        size_t want = bytes - done < block.size() ? bytes - done : block.size();
        if (sends) {
            for (size_t i = 0; i < want; i += 8) {
                uint64_t next = word((done + i) / 8);
                memcpy(&block[i], &next, want - i < 8 ? want - i : 8);
            }
            for (size_t at = 0; at < want;) {
                int sent = UDT::send(socket, &block[at], want - at, 0);
                if (sent == UDT::ERROR) return fail("send");
                at += sent;
            }
            state = hash(state, block.data(), want);
            done += want;
        } else {
            int got = UDT::recv(socket, block.data(), want, 0);
            if (got == UDT::ERROR) return fail("recv");
            state = hash(state, block.data(), got);
            done += got;
        }
    }
    printf("done %llu %016llx\n", (unsigned long long)done, (unsigned long long)state);
    fflush(stdout);
    // A receiver waits for the sender's end: its own would overtake the last acknowledgement.
    while (!sends && UDT::recv(socket, block.data(), block.size(), 0) != UDT::ERROR) {
    }
    // Lingers until all is acknowledged.
    UDT::close(socket);
    return 0;
}

static void threads() {
    DIR* tasks = opendir("/proc/self/task");
    std::vector<int> ids;
    while (dirent* task = tasks ? readdir(tasks) : nullptr) {
        if (task->d_name[0] != '.') ids.push_back(atoi(task->d_name));
    }
    std::sort(ids.begin(), ids.end());
    for (size_t i = 0; i < ids.size(); i++) {
        std::ifstream spent("/proc/self/task/" + std::to_string(ids[i]) + "/stat");
        std::string skipped;
        // The name in field 2 is this program's, without blanks.
        for (int field = 1; field < 14; field++) spent >> skipped;
        uint64_t user = 0, system = 0;
        spent >> user >> system;
        double tick = 1.0 / sysconf(_SC_CLK_TCK);
        printf("thread %zu user %.2f system %.2f\n", i + 1, user * tick, system * tick);
    }
    if (tasks) closedir(tasks);
}

// The library's view, which the sender's and the receiver's counters share.
static int measure(UDTSOCKET socket, bool sends, double seconds, size_t write) {
    std::vector<char> block(sends ? write : 1 << 20);
    double start = now(), shown = start, last = start;
    uint64_t bytes = 0, then = 0;
    while (last - start < seconds) {
        int done = sends ? UDT::send(socket, block.data(), block.size(), 0)
                         : UDT::recv(socket, block.data(), block.size(), 0);
        if (done == UDT::ERROR) break;
        bytes += done;
        last = now();
        if (last - shown < 0.5) continue;
        UDT::TRACEINFO info;
        if (UDT::perfmon(socket, &info, false) == UDT::ERROR) break;
        printf("at %.2f mbps %.1f period_us %.3f cwnd %d flow %d flight %d rtt_ms %.2f capacity_mbps %.0f again %d "
               "sent %lld acks %d naks %d lost %d\n",
               last - start, (bytes - then) * 8 / (last - shown) / 1e6, info.usPktSndPeriod, info.pktCongestionWindow,
               info.pktFlowWindow, info.pktFlightSize, info.msRTT, info.mbpsBandwidth, info.pktRetransTotal,
               (long long)info.pktSentTotal, sends ? info.pktRecvACKTotal : info.pktSentACKTotal,
               sends ? info.pktRecvNAKTotal : info.pktSentNAKTotal, sends ? info.pktSndLossTotal : info.pktRcvLossTotal);
        fflush(stdout);
        shown = last, then = bytes;
    }
    printf("mean %.1f\n", bytes * 8 / (last - start) / 1e6);
    threads();
    fflush(stdout);
    // Without the lingering of UDT::close: what is under way does not matter.
    _exit(0);
}

int main(int argc, char** argv) {
    if (argc < 6 || argc > 9) {
        fprintf(stderr, "usage: udt-peer send|recv listen|connect [ADDRESS:]PORT BYTES MSS [SECONDS [WRITE [MBPS]]]\n");
        return 2;
    }
    bool sends = strcmp(argv[1], "send") == 0, listens = strcmp(argv[2], "listen") == 0;
    uint64_t bytes = strtoull(argv[4], nullptr, 10);
    int mss = atoi(argv[5]);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    std::string where = argv[3];
    size_t colon = where.find(':');
    std::string host = colon == std::string::npos ? "127.0.0.1" : where.substr(0, colon);
    address.sin_port = htons(atoi(where.c_str() + (colon == std::string::npos ? 0 : colon + 1)));
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
        fprintf(stderr, "udt-peer: %s is not an address\n", host.c_str());
        return 2;
    }
    UDT::startup();
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    if (UDT::setsockopt(socket, 0, UDT_MSS, &mss, sizeof mss) == UDT::ERROR) return fail("UDT_MSS");
    int64_t most = argc > 8 ? atoll(argv[8]) * 125000 : -1;
    if (UDT::setsockopt(socket, 0, UDT_MAXBW, &most, sizeof most) == UDT::ERROR) return fail("UDT_MAXBW");
    if (listens) {
        sockaddr_in bound{};
        int size = sizeof bound;
        if (UDT::bind(socket, (sockaddr*)&address, sizeof address) == UDT::ERROR) return fail("bind");
        if (UDT::listen(socket, 1) == UDT::ERROR) return fail("listen");
        UDT::getsockname(socket, (sockaddr*)&bound, &size);
        printf("port %d\n", ntohs(bound.sin_port));
        fflush(stdout);
        fprintf(stderr, "listening\n");
        UDTSOCKET accepted = UDT::accept(socket, (sockaddr*)&bound, &size);
        if (accepted == UDT::INVALID_SOCK) return fail("accept");
        socket = accepted;
    } else if (UDT::connect(socket, (sockaddr*)&address, sizeof address) == UDT::ERROR) {
        return fail("connect");
    }
    if (argc > 6) return measure(socket, sends, atof(argv[6]), argc > 7 ? strtoull(argv[7], nullptr, 10) : 100000);
    int status = move(socket, sends, bytes);
    UDT::cleanup();
    return status;
}
