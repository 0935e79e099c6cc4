/* The load generator of ./tools/bench: one process, one thread, epoll; it must never be the bottleneck.
 *
 *   load --port P --conns N --spec "reply=1024" [--body BYTES] [--stream] [--warmup-ms W] [--ms D]
 *        [--length BYTES] [--marks N] [--stagger-ms S] [--rate PER_S] [--leave-ms L] [--leave-permille P] [--once] [--settle]
 *
 * N connections to 127.0.0.1, each sends its next request when its response is whole; with --rate,
 * requests start evenly in time on connections that are idle. With --leave-ms every connection
 * closes that long after its request and says so, or with --leave-permille P that part of the requests
 * does, within that time; with --once it asks only once.
 * A response counts only if its status is 200, its body has --length bytes and holds --marks marks
 * [t=NANOSECONDS] in order of time. Everything else is an error by kind, and its connection is new.
 * Says "begin" after the warm-up (with --settle: after every connection had a first mark, too), "all open" when every connection had a first mark, and one line of
 * JSON at the end (or at SIGTERM): counts and percentiles, microseconds, of what fell in between. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 8192, PART_BITS = 10, PARTS = 1 << PART_BITS, BUCKETS = PARTS * (64 - PART_BITS) };
#define SETTLE_NS 8000000000u
enum kind { CONNECT, STATUS, LENGTH, MARKS, CUT, PROTOCOL, KINDS };
enum step { AWAY, CONNECTING, IDLE, ASKING, HEAD, BODY, GONE };
enum framing { BY_LENGTH, SIZE_LINE, CHUNK, CHUNK_END, TRAILER };

struct hist { uint64_t count, sum, max, at[BUCKETS]; };
struct conn {
    int fd, id, first_seen, marks, close_after;
    enum step step;
    enum framing framing;
    char ask[512], *body, head[HEAD_MAX + 1];
    size_t ask_len, asked, head_len, left, body_len, line_len;
    int mark_at; /* how much of "[t=DIGITS]" was seen */
    uint64_t mark, last_mark, last_at, asked_at, due;
};

static struct { long port, conns, body, stream, warmup_ms, ms, length, marks, stagger_ms, rate, leave_ms, leave_permille, once, settle; const char *spec; } want =
    {.conns = 1, .leave_permille = 1000, .ms = 1000, .length = -1, .marks = -1, .body = 2048, .spec = "reply=1024"};
static struct conn *conns;
static struct hist latency, first_byte, transit, gap;
static long done, gone, begun, chunks, late, errors[KINDS], first_marks, bytes_in, waiting;
static const char *kind_names[KINDS] = {"connect", "status", "length", "marks", "cut", "protocol"};
static int poller, last_status;
static char scratch[1 << 18];
static size_t body_size;
static char *shared_body;
static volatile sig_atomic_t stopped;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void stop(int number) { (void)number; stopped = 1; }

/* 1,024 buckets a power of two: values are right within 0.1 %. A first byte is read behind the
 * 20 ms of the upstream's, which are taken off: of 64 buckets each was 0.26 ms wide there, as much as
 * a router adds. */
static void note(struct hist *h, uint64_t value) {
    size_t power = value < PARTS ? 0 : (size_t)(64 - PART_BITS - __builtin_clzll(value));
    size_t bucket = power ? power * PARTS + ((value >> (power - 1)) & (PARTS - 1)) : (size_t)value;
    if (bucket >= BUCKETS) bucket = BUCKETS - 1;
    h->at[bucket]++;
    h->count++;
    h->sum += value;
    if (value > h->max) h->max = value;
}

static double percentile_us(const struct hist *h, double part) {
    uint64_t rank = (uint64_t)(part * (double)h->count), seen = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        if ((seen += h->at[i]) > rank) {
            size_t power = i / PARTS;
            uint64_t low = power ? (PARTS + i % PARTS) << (power - 1) : i;
            return (double)(power ? low + (1ull << (power - 1)) / 2 : low) / 1000;
        }
    return (double)h->max / 1000;
}

/* Evenly from 0 to below `most`, the same in every run. */
static long chance(long most) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (long)(state % (uint64_t)(most > 0 ? most : 1));
}

static void wait_until(struct conn *c, enum step step, uint64_t due) {
    c->step = step;
    c->due = due;
    waiting++;
}

static void drop(struct conn *c, enum step next, uint64_t due) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    c->step = next;
    if (next == AWAY) wait_until(c, AWAY, due);
}

static void fail(struct conn *c, enum kind kind) {
    errors[kind]++;
    if (c->due) { c->due = 0; waiting--; }
    drop(c, want.once ? GONE : AWAY, now_ns() + 20000000);
}

static void watch(struct conn *c, int op, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(poller, op, c->fd, &e);
}

static void push(struct conn *c) {
    struct iovec parts[2];
    int count = 0;
    if (c->asked < c->ask_len) parts[count++] = (struct iovec){c->ask + c->asked, c->ask_len - c->asked};
    size_t of_body = c->asked > c->ask_len ? c->asked - c->ask_len : 0;
    parts[count++] = (struct iovec){c->body + of_body, body_size - of_body};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(c->fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) { fail(c, CUT); return; }
    if (sent > 0) c->asked += (size_t)sent;
    int whole = c->asked == c->ask_len + body_size;
    if (!whole || c->step == ASKING) watch(c, EPOLL_CTL_MOD, whole ? EPOLLIN | EPOLLRDHUP : EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    c->step = whole ? HEAD : ASKING;
    if (whole && want.leave_ms && chance(1000) >= want.leave_permille) return;
    if (whole && want.leave_ms) wait_until(c, HEAD, now_ns() + (uint64_t)(want.leave_permille < 1000 ? chance(want.leave_ms * 1000) * 1000 : want.leave_ms * 1000000));
}

static void ask(struct conn *c) {
    c->asked = c->head_len = c->body_len = c->line_len = 0;
    c->marks = c->mark_at = c->first_seen = 0;
    c->last_mark = c->last_at = 0;
    c->asked_at = now_ns();
    c->step = HEAD;
    begun++;
    push(c);
}

static void connect_now(struct conn *c) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)want.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->step = CONNECTING;
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) { fail(c, CONNECT); return; }
    watch(c, EPOLL_CTL_ADD, EPOLLOUT);
}

static void next_request(struct conn *c) {
    if (c->close_after) { drop(c, AWAY, now_ns()); return; }
    c->step = IDLE;
    if (!want.rate) ask(c);
}

static void check(struct conn *c) {
    if (c->due) { c->due = 0; waiting--; }
    if (last_status != 200) { fail(c, STATUS); return; }
    if (want.length >= 0 && c->body_len != (size_t)want.length) { fail(c, LENGTH); return; }
    if (want.marks >= 0 && c->marks != want.marks) { fail(c, MARKS); return; }
    done++;
    note(&latency, now_ns() - c->asked_at);
    if (want.once) drop(c, GONE, 0);
    else next_request(c);
}

static void on_mark(struct conn *c, uint64_t now) {
    c->mark_at = 0;
    c->marks++;
    chunks++;
    note(&transit, now > c->mark ? now - c->mark : 0);
    if (c->last_at) note(&gap, now - c->last_at);
    if (c->mark < c->last_mark || c->mark > now) c->marks = 1 << 30; /* out of order: never right */
    if (!c->last_at && ++first_marks == want.conns) { puts("all open"); fflush(stdout); }
    c->last_mark = c->mark;
    c->last_at = now;
}

static void take_body(struct conn *c, const char *data, size_t len, uint64_t now) {
    if (!len) return;
    if (!c->first_seen) { c->first_seen = 1; note(&first_byte, now - c->asked_at); }
    c->body_len += len;
    bytes_in += (long)len;
    for (const char *end = data + len; data < end; data++) {
        if (c->mark_at == 0) {
            if (!(data = memchr(data, '[', (size_t)(end - data)))) return;
            c->mark_at = 1;
        } else if (c->mark_at < 3) {
            c->mark_at = *data == "[t="[c->mark_at] ? c->mark_at + 1 : *data == '[';
            c->mark = 0;
        } else if (*data >= '0' && *data <= '9') c->mark = c->mark * 10 + (uint64_t)(*data - '0');
        else if (*data == ']') on_mark(c, now);
        else c->mark_at = 0;
    }
}

/* The head is whole: how long is the body, and does the connection stay? */
static int read_head(struct conn *c) {
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    last_status = c->head_len > 12 ? atoi(c->head + 9) : 0;
    c->close_after = strcasestr(c->head, "\r\nconnection: close") != NULL;
    c->step = BODY;
    if (strcasestr(c->head, "\r\ntransfer-encoding: chunked")) c->framing = SIZE_LINE;
    else if (length) { c->framing = BY_LENGTH; c->left = strtoul(length + 17, NULL, 10); }
    else return 0;
    if (last_status == 200) return 1;
    fail(c, STATUS);
    return 1;
}

/* One line of the chunked framing, ended at '\n'. 1: the body is whole. -1: this is no size. */
static int take_line(struct conn *c) {
    c->head[c->line_len] = 0;
    size_t len = c->line_len;
    c->line_len = 0;
    if (c->framing == CHUNK_END) { c->framing = SIZE_LINE; return len <= 1 ? 0 : -1; }
    if (c->framing == TRAILER) return len <= 1;
    char *end;
    c->left = strtoul(c->head, &end, 16);
    if (end == c->head) return -1;
    c->framing = c->left ? CHUNK : TRAILER;
    return 0;
}

/* 1: the response is whole. 0: more to come. -1: not HTTP. */
static int take(struct conn *c, const char *data, size_t len, uint64_t now) {
    const char *end = data + len;
    while (data < end && c->step == HEAD) {
        if (c->head_len == HEAD_MAX) return -1;
        c->head[c->head_len++] = *data++;
        if (c->head_len > 3 && data[-1] == '\n' && !memcmp(c->head + c->head_len - 4, "\r\n\r\n", 4)) {
            c->head[c->head_len] = 0;
            if (!read_head(c)) return -1;
            if (c->step == BODY && c->framing == BY_LENGTH && !c->left) return 1;
        }
    }
    while (data < end && c->step == BODY) {
        if (c->framing == BY_LENGTH || c->framing == CHUNK) {
            size_t part = (size_t)(end - data) < c->left ? (size_t)(end - data) : c->left;
            take_body(c, data, part, now);
            data += part;
            c->left -= part;
            if (!c->left && c->framing == BY_LENGTH) return data == end ? 1 : -1;
            if (!c->left) c->framing = CHUNK_END;
        } else if (*data != '\n') {
            if (c->line_len == HEAD_MAX) return -1;
            c->head[c->line_len++] = *data++;
        } else {
            data++;
            int whole = take_line(c);
            if (whole) return whole < 0 || data < end ? -1 : 1;
        }
    }
    return data < end && c->step != AWAY && c->step != GONE ? -1 : 0;
}

static void on_socket(struct conn *c, uint32_t events) {
    if (c->step == CONNECTING) {
        int problem = 0;
        socklen_t size = sizeof problem;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &problem, &size);
        if (problem) { fail(c, CONNECT); return; }
        watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP);
        next_request(c);
        return;
    }
    if (events & EPOLLOUT && c->step == ASKING) push(c);
    if (!(events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) || c->fd < 0) return;
    ssize_t got = recv(c->fd, scratch, sizeof scratch, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        if (c->step == IDLE) drop(c, AWAY, now_ns());
        else fail(c, CUT);
        return;
    }
    if (c->step == ASKING) c->step = HEAD; /* an answer before the whole request was taken */
    int whole = c->step == IDLE ? -1 : take(c, scratch, (size_t)got, now_ns());
    if (whole < 0) fail(c, PROTOCOL);
    if (whole > 0) check(c);
}

static void on_due(struct conn *c, uint64_t now) {
    c->due = 0;
    waiting--;
    if (c->step == AWAY) { connect_now(c); return; }
    gone++;
    if (want.leave_permille == 1000) printf("left %d %llu\n", c->id, (unsigned long long)now);
    drop(c, want.once ? GONE : AWAY, now);
}

static void pace(uint64_t now, uint64_t started, long *sent) {
    static long turn;
    long owed = (long)((double)(now - started) / 1e9 * (double)want.rate) - *sent;
    for (; owed > 0; owed--, ++*sent) {
        long tries = 0;
        for (; tries < want.conns && conns[turn].step != IDLE; tries++) turn = (turn + 1) % want.conns;
        if (tries == want.conns) late++;
        else ask(&conns[turn]);
        turn = (turn + 1) % want.conns;
    }
}

static void reset(void) {
    done = gone = begun = chunks = late = bytes_in = 0;
    memset(errors, 0, sizeof errors);
    memset(&latency, 0, sizeof latency);
    memset(&first_byte, 0, sizeof latency);
    memset(&transit, 0, sizeof latency);
    memset(&gap, 0, sizeof latency);
    puts("begin");
    fflush(stdout);
}

static void report_hist(const char *name, const struct hist *h) {
    printf(",\"%s\":{\"count\":%llu,\"mean\":%.1f,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f}", name, (unsigned long long)h->count,
        h->count ? (double)h->sum / (double)h->count / 1000 : 0, percentile_us(h, .5), percentile_us(h, .9), percentile_us(h, .99), (double)h->max / 1000);
}

static void report(uint64_t spent) {
    printf("{\"seconds\":%.6f,\"done\":%ld,\"gone\":%ld,\"begun\":%ld,\"chunks\":%ld,\"late\":%ld,\"bytes\":%ld,\"last_status\":%d,\"errors\":{", (double)spent / 1e9, done, gone, begun, chunks, late, bytes_in, last_status);
    for (int i = 0; i < KINDS; i++) printf("%s\"%s\":%ld", i ? "," : "", kind_names[i], errors[i]);
    printf("}");
    report_hist("latency", &latency);
    report_hist("first_byte", &first_byte);
    report_hist("transit", &transit);
    report_hist("gap", &gap);
    puts("}");
    fflush(stdout);
}

static void read_options(int count, char **given) {
    struct { const char *name; long *value; } numbers[] = {{"port", &want.port}, {"conns", &want.conns}, {"body", &want.body}, {"warmup-ms", &want.warmup_ms},
        {"ms", &want.ms}, {"length", &want.length}, {"marks", &want.marks}, {"stagger-ms", &want.stagger_ms}, {"rate", &want.rate}, {"leave-ms", &want.leave_ms}, {"leave-permille", &want.leave_permille}};
    for (int i = 1; i < count; i++) {
        if (!strcmp(given[i], "--stream")) { want.stream = 1; continue; }
        if (!strcmp(given[i], "--once")) { want.once = 1; continue; }
        if (!strcmp(given[i], "--settle")) { want.settle = 1; continue; }
        size_t n = 0;
        if (i + 1 < count && !strcmp(given[i], "--spec")) { want.spec = given[++i]; continue; }
        for (; n < sizeof numbers / sizeof *numbers && strcmp(given[i] + 2, numbers[n].name); n++) {}
        if (i + 1 == count || n == sizeof numbers / sizeof *numbers) { fprintf(stderr, "load: what is %s?\n", given[i]); exit(2); }
        *numbers[n].value = atol(given[++i]);
    }
    if (want.port <= 0 || want.conns <= 0) { fputs("load: --port and --conns are needed\n", stderr); exit(2); }
}

/* Bodies are shared, except where each must carry its own id. */
static char *make_body(int id) {
    static const char tail[] = "\"}]}";
    char *body = malloc((size_t)want.body + 1024);
    size_t at = (size_t)sprintf(body, "{\"model\":\"bench-model\",\"stream\":%s,\"messages\":[{\"role\":\"system\",\"content\":\"You are being measured.\"},{\"role\":\"user\",\"content\":\"[[id=%07d %.400s]]",
        want.stream ? "true" : "false", id, want.spec);
    for (; at + sizeof tail - 1 < (size_t)want.body; at++) body[at] = at % 6 ? 'a' : ' ';
    memcpy(body + at, tail, sizeof tail - 1);
    body_size = at + sizeof tail - 1;
    return body;
}

static void prepare(uint64_t now) {
    conns = calloc((size_t)want.conns, sizeof *conns);
    shared_body = make_body(0);
    for (int i = 0; i < want.conns; i++) {
        struct conn *c = &conns[i];
        c->fd = -1;
        c->id = i;
        c->body = want.leave_ms && want.leave_permille == 1000 ? make_body(i) : shared_body;
        c->ask_len = (size_t)snprintf(c->ask, sizeof c->ask, "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%ld\r\ncontent-type: application/json\r\n"
            "accept: */*\r\nuser-agent: trioroute-bench\r\nx-session-id: session-%d\r\ncontent-length: %zu\r\n\r\n", want.port, i, body_size);
        wait_until(c, AWAY, now + (uint64_t)(want.stagger_ms * 1000000L / want.conns * i));
    }
}

int main(int count, char **given) {
    read_options(count, given);
    poller = epoll_create1(0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, stop);
    uint64_t started = now_ns(), begin = started + (uint64_t)want.warmup_ms * 1000000, ticked = 0, measured = 0;
    long sent = 0;
    prepare(started);
    struct epoll_event found[512];
    while (!stopped) {
        int n = epoll_wait(poller, found, 512, 1);
        for (int i = 0; i < n; i++) on_socket(found[i].data.ptr, found[i].events);
        uint64_t now = now_ns();
        if (now - ticked < 1000000) continue;
        ticked = now;
        if (!measured && want.settle && first_marks < want.conns && now < started + SETTLE_NS) begin = now + (uint64_t)want.warmup_ms * 1000000;
        if (!measured && now >= begin) { measured = now; reset(); }
        if (measured && now >= measured + (uint64_t)want.ms * 1000000) break;
        if (want.rate) pace(now, started, &sent);
        for (long i = 0; waiting && i < want.conns; i++)
            if (conns[i].due && conns[i].due <= now) on_due(&conns[i], now);
    }
    report(now_ns() - (measured ? measured : started));
    return 0;
}
