// The other side of the wire-compatibility test: moves a made-up object over Debian's libudt.
//
//   udt-peer send|recv listen|connect PORT BYTES MSS
//
// A listener takes any port for 0 and says which: "port N". At the end: "done BYTES HASH", where the
// hash is FNV-1a (64 bits) of the bytes in order. The object is SplitMix64 of 0, 1, 2, ..., little-endian.

#include <arpa/inet.h>
#include <udt.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

int main(int argc, char** argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: udt-peer send|recv listen|connect PORT BYTES MSS\n");
        return 2;
    }
    bool sends = strcmp(argv[1], "send") == 0, listens = strcmp(argv[2], "listen") == 0;
    uint64_t bytes = strtoull(argv[4], nullptr, 10);
    int mss = atoi(argv[5]);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(argv[3]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    UDT::startup();
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    if (UDT::setsockopt(socket, 0, UDT_MSS, &mss, sizeof mss) == UDT::ERROR) return fail("UDT_MSS");
    if (listens) {
        sockaddr_in bound{};
        int size = sizeof bound;
        if (UDT::bind(socket, (sockaddr*)&address, sizeof address) == UDT::ERROR) return fail("bind");
        if (UDT::listen(socket, 1) == UDT::ERROR) return fail("listen");
        UDT::getsockname(socket, (sockaddr*)&bound, &size);
        printf("port %d\n", ntohs(bound.sin_port));
        fflush(stdout);
        UDTSOCKET accepted = UDT::accept(socket, (sockaddr*)&bound, &size);
        if (accepted == UDT::INVALID_SOCK) return fail("accept");
        socket = accepted;
    } else if (UDT::connect(socket, (sockaddr*)&address, sizeof address) == UDT::ERROR) {
        return fail("connect");
    }
    int status = move(socket, sends, bytes);
    UDT::cleanup();
    return status;
}
