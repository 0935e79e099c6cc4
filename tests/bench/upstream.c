/* A fake vLLM for ./tools/bench: one process, one thread, epoll; it must never be the bottleneck.
 *
 *   upstream PORT...      listens on 127.0.0.1, one replica a port; 0 is any free one. Prints the ports.
 *
 * What to answer stands in the prompt, so that it survives every router that rewrites the request:
 *   [[reply=1024 first_us=0]]                                    one JSON body of 1024 bytes
 *   [[chunks=50 bytes=250 first_us=20000 gap_us=20000 phase_us=0 id=7]]   a stream of 50 events
 * A stream's head goes out at once, as vLLM's does; `phase_us` spreads the first events evenly over
 * that time. Every body carries [t=NANOSECONDS], CLOCK_MONOTONIC, once an event.
 * Without such a line: 1024 bytes, or 16 events where the request says "stream": true.
 * GET /bench/aborts lists "id nanoseconds" of responses whose reader left; /bench/stats counts;
 * /bench/cut breaks off every stream, so that none whose reader is gone is sent into the next run. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { IN_MAX = 24576, BODY_KEPT = 8192, EVENT_MAX = 16384, PORTS_MAX = 16, ABORTS = 8192, REPLY_MAX = 4 << 20 };
#define MODEL "bench-model"

struct spec { long reply, first_us, chunks, gap_us, phase_us, bytes, id; };
struct port { int fd; long running, served; };
struct conn {
    int fd, busy, close_after;
    struct port *port;
    char in[IN_MAX + 1];
    size_t kept, head, body, body_seen;
    char *out;
    size_t out_len, out_sent;
    struct spec spec;
    uint64_t due;
    size_t slot; /* place in the heap of timers from 1, 0: none */
};

static struct port ports[PORTS_MAX];
static int port_count, poller, timer, cut;
static struct conn **heap;
static size_t heap_len, heap_room;
static struct { long id; uint64_t at; } aborts[ABORTS];
static long abort_count, requests, completed, open_now, blocked;
static char scratch[1 << 18], event_text[EVENT_MAX + 512];

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void place(size_t slot, struct conn *c) { heap[slot] = c; c->slot = slot; }

static void sift(size_t slot) {
    struct conn *c = heap[slot];
    for (; slot > 1 && heap[slot / 2]->due > c->due; slot /= 2) place(slot, heap[slot / 2]);
    for (size_t next; (next = slot * 2) <= heap_len; slot = next) {
        if (next < heap_len && heap[next + 1]->due < heap[next]->due) next++;
        if (heap[next]->due >= c->due) break;
        place(slot, heap[next]);
    }
    place(slot, c);
}

static void wake_at(struct conn *c, uint64_t due) {
    c->due = due;
    if (!c->slot) {
        if (heap_len + 2 > heap_room) heap = realloc(heap, (heap_room = heap_room * 2 + 64) * sizeof *heap);
        place(++heap_len, c);
    }
    sift(c->slot);
}

static void no_wake(struct conn *c) {
    size_t slot = c->slot;
    if (!slot) return;
    c->slot = 0;
    struct conn *last = heap[heap_len--];
    if (last != c) { place(slot, last); sift(slot); }
}

static void hang_up(struct conn *c) {
    if (c->busy) {
        aborts[abort_count % ABORTS].id = c->spec.id;
        aborts[abort_count++ % ABORTS].at = now_ns();
        c->port->running--;
    }
    no_wake(c);
    close(c->fd);
    free(c->out);
    free(c);
    open_now--;
}

static void watch(struct conn *c, uint32_t more) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | more, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

static void finish(struct conn *c) {
    c->busy = 0;
    c->port->running--;
    c->port->served++;
    completed++;
    c->kept = c->head = c->body = c->body_seen = 0;
}

/* Sends all of it, or keeps the rest until the socket takes it. 0 if the connection is gone. */
static int put(struct conn *c, const char *data, size_t len) {
    ssize_t sent = send(c->fd, data, len, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return 0;
    if (sent < 0) sent = 0;
    if ((size_t)sent < len) {
        c->out_len = len - (size_t)sent;
        c->out_sent = 0;
        c->out = realloc(c->out, c->out_len);
        memcpy(c->out, data + sent, c->out_len);
        watch(c, EPOLLOUT);
    }
    return 1;
}

static int answer(struct conn *c, const char *status, const char *type, const char *body, size_t len) {
    static char whole[REPLY_MAX + 512];
    int head = snprintf(whole, 512, "HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %zu\r\n\r\n", status, type, len);
    memcpy(whole + head, body, len);
    int sent = put(c, whole, (size_t)head + len);
    if (sent) finish(c);
    return sent;
}

static int answer_json(struct conn *c, uint64_t now) {
    static char body[REPLY_MAX];
    static const char tail[] = "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9,\"total_tokens\":18}}";
    size_t want = (size_t)c->spec.reply, at = (size_t)snprintf(body, 512,
        "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"" MODEL
        "\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"[t=%020llu]", (unsigned long long)now);
    if (want > REPLY_MAX) want = REPLY_MAX;
    for (; at + sizeof tail - 1 < want; at++) body[at] = 'x';
    memcpy(body + at, tail, sizeof tail - 1);
    return answer(c, "200 OK", "application/json", body, at + sizeof tail - 1);
}

/* One event of the stream; the last comes with the finish, [DONE] and the end of the body. */
static int send_event(struct conn *c, uint64_t now) {
    static const char tail[] = "\"},\"finish_reason\":null}]}\n\n";
    static const char end[] = "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"" MODEL
        "\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    char *body = event_text + 16, size[16];
    size_t want = (size_t)c->spec.bytes, at = (size_t)snprintf(body, 512,
        "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"" MODEL
        "\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"[t=%020llu]", (unsigned long long)now);
    for (; at + sizeof tail - 1 < want && at < EVENT_MAX - 512; at++) body[at] = 'x';
    memcpy(body + at, tail, sizeof tail - 1);
    at += sizeof tail - 1;
    int width = snprintf(size, sizeof size, "%zx\r\n", at);
    memcpy(body - width, size, (size_t)width);
    memcpy(body + at, "\r\n", 2);
    char *stop = body + at + 2;
    if (c->spec.chunks == 1) stop += sprintf(stop, "%zx\r\n%s\r\n0\r\n\r\n", sizeof end - 1, end);
    if (!put(c, body - width, (size_t)(stop - body + width))) return 0;
    if (--c->spec.chunks == 0) finish(c);
    return 1;
}

static int on_time(struct conn *c, uint64_t now) {
    if (c->spec.chunks == 0) return answer_json(c, now);
    uint64_t gap = (uint64_t)c->spec.gap_us * 1000, next = c->due + gap;
    if (next + 100000000u < now) next = now; /* never catch up with more than 0.1 s at once */
    if (c->out_len) blocked++;
    else if (!send_event(c, now)) return 0;
    if (c->busy) wake_at(c, next);
    return 1;
}

static void read_spec(struct conn *c) {
    char *body = c->in + c->head, *at = strstr(body, "[["), *end = at ? strstr(at, "]]") : NULL;
    struct spec *s = &c->spec;
    *s = (struct spec){.reply = 1024, .bytes = 250, .gap_us = 20000};
    if (!end) {
        if (strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true")) s->chunks = 16;
        return;
    }
    *end = 0;
    struct { const char *name; long *value; } fields[] = {{"reply=", &s->reply}, {"first_us=", &s->first_us},
        {"chunks=", &s->chunks}, {"gap_us=", &s->gap_us}, {"phase_us=", &s->phase_us}, {"bytes=", &s->bytes}, {"id=", &s->id}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char *found = strstr(at, fields[i].name);
        if (found) *fields[i].value = atol(found + strlen(fields[i].name));
    }
}

static int complete(struct conn *c) {
    static const char stream_head[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    static uint32_t chance = 1;
    static char text[ABORTS * 48];
    uint64_t now = now_ns();
    c->busy = 1;
    c->port->running++;
    if (!strncmp(c->in, "POST /v1/chat/completions ", 26) || !strncmp(c->in, "POST /v1/completions ", 21)) {
        requests++;
        read_spec(c);
        if (c->spec.chunks && !put(c, stream_head, sizeof stream_head - 1)) return 0;
        uint64_t wait = (uint64_t)c->spec.first_us * 1000;
        chance = chance * 1664525u + 1013904223u;
        if (c->spec.phase_us) wait += (chance >> 8) % (uint64_t)c->spec.phase_us * 1000;
        if (!c->spec.chunks && !wait) return answer_json(c, now);
        wake_at(c, now + wait);
        return 1;
    }
    c->spec = (struct spec){0};
    int len = 0;
    const char *type = "application/json";
    if (!strncmp(c->in, "GET /health", 11)) len = 0;
    else if (!strncmp(c->in, "GET /v1/models", 14))
        len = sprintf(text, "{\"object\":\"list\",\"data\":[{\"id\":\"" MODEL "\",\"object\":\"model\",\"created\":1700000000,\"owned_by\":\"vllm\",\"max_model_len\":1000000}]}");
    else if (!strncmp(c->in, "GET /metrics", 12)) {
        type = "text/plain; version=0.0.4; charset=utf-8";
        long running = c->port->running - 1, tokens = c->port->served;
        len = sprintf(text, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"" MODEL "\"} %ld.0\n"
            "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"" MODEL "\"} 0.0\n"
            "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"" MODEL "\"} 0.1\n"
            "# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{engine=\"0\",model_name=\"" MODEL "\"} %ld.0\n", running, tokens);
    } else if (strstr(c->in, "_info") || !strncmp(c->in, "GET /server_info", 16) || !strncmp(c->in, "GET /version", 12))
        len = sprintf(text, "{\"model_path\":\"" MODEL "\",\"served_model_name\":\"" MODEL "\",\"version\":\"0.11.0\",\"dp_size\":1}");
    else if (!strncmp(c->in, "GET /bench/stats", 16))
        len = sprintf(text, "{\"requests\":%ld,\"completed\":%ld,\"aborted\":%ld,\"open\":%ld,\"running\":%ld,\"blocked\":%ld}", requests, completed, abort_count, open_now, (long)heap_len, blocked);
    else if (!strncmp(c->in, "GET /bench/cut", 14))
        cut = 1;
    else if (!strncmp(c->in, "GET /bench/aborts", 17))
        for (long i = abort_count > ABORTS ? abort_count - ABORTS : 0; i < abort_count; i++)
            len += sprintf(text + len, "%ld %llu\n", aborts[i % ABORTS].id, (unsigned long long)aborts[i % ABORTS].at);
    else return answer(c, "404 Not Found", type, "{\"error\":\"not here\"}", 20);
    return answer(c, "200 OK", type, text, (size_t)len);
}

static int read_head(struct conn *c) {
    c->in[c->kept] = 0;
    char *end = strstr(c->in, "\r\n\r\n"), *length;
    if (!end) return c->kept < IN_MAX - BODY_KEPT;
    c->head = (size_t)(end - c->in) + 4;
    *end = 0;
    if (strcasestr(c->in, "\r\ntransfer-encoding:")) {
        c->busy = 1;
        c->port->running++;
        answer(c, "411 Length Required", "text/plain", "content-length only", 19);
        return 0;
    }
    length = strcasestr(c->in, "\r\ncontent-length:");
    c->body = length ? strtoul(length + 17, NULL, 10) : 0;
    *end = '\r';
    return 1;
}

/* Takes in what was received. 0 if the connection shall be closed. */
static int feed(struct conn *c, const char *data, size_t len) {
    if (c->busy) return 0; /* pipelining is not spoken here */
    size_t room = IN_MAX - c->kept, take = len < room ? len : room, head_before = c->head;
    if (!head_before && take > IN_MAX - BODY_KEPT) take = IN_MAX - BODY_KEPT;
    memcpy(c->in + c->kept, data, take);
    c->kept += take;
    if (!head_before) {
        if (!read_head(c)) return 0;
        if (!c->head) return 1;
        c->body_seen = c->kept - c->head + (len - take);
    } else c->body_seen += len;
    c->in[c->kept] = 0;
    if (c->body_seen > c->body) return 0;
    return c->body_seen < c->body || complete(c);
}

static void on_socket(struct conn *c, uint32_t events) {
    if (events & EPOLLOUT && c->out_len) {
        ssize_t sent = send(c->fd, c->out + c->out_sent, c->out_len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) { hang_up(c); return; }
        if (sent > 0) { c->out_sent += (size_t)sent; c->out_len -= (size_t)sent; }
        if (!c->out_len) watch(c, 0);
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        ssize_t got = recv(c->fd, scratch, sizeof scratch, 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0 || !feed(c, scratch, (size_t)got)) hang_up(c);
    }
}

static void welcome(struct port *p) {
    for (int fd; (fd = accept4(p->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->port = p;
        open_now++;
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    }
}

static void listen_on(const char *number) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(number)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4096)) { perror("upstream: listen"); exit(1); }
    getsockname(fd, (struct sockaddr *)&at, &size);
    printf("%d ", ntohs(at.sin_port));
    ports[port_count].fd = fd;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &ports[port_count++]};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
}

static void run_timers(void) {
    static uint64_t armed;
    for (uint64_t now = now_ns(); heap_len && heap[1]->due <= now; now = now_ns()) {
        struct conn *c = heap[1];
        no_wake(c);
        if (!on_time(c, now)) hang_up(c);
    }
    uint64_t due = heap_len ? heap[1]->due : 0;
    if (due == armed && (!due || due > now_ns())) return;
    armed = due;
    struct itimerspec when = {.it_value = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

int main(int count, char **given) {
    poller = epoll_create1(0);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event found[512], e = {.events = EPOLLIN, .data.ptr = &timer};
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &e);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i < count && i <= PORTS_MAX; i++) listen_on(given[i]);
    puts("");
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(poller, found, 512, -1);
        for (int i = 0; i < n; i++) {
            void *what = found[i].data.ptr;
            uint64_t ticks;
            if (what == &timer) { if (read(timer, &ticks, sizeof ticks) < 0) continue; }
            else if (what >= (void *)ports && what < (void *)(ports + PORTS_MAX)) welcome(what);
            else on_socket(what, found[i].events);
        }
        for (; cut && heap_len;) hang_up(heap[1]);
        cut = 0;
        run_timers();
    }
}
