/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals of messages, for a transport that does not check its messages itself. A checksum and a number let the receiver find a changed, lost
 * or repeated message. That ends the job with an error; nothing is sent twice. msg_plane.c calls it under the plane's lock, in the step
 * thread or the progress thread.
 *
 * A send copies its bytes behind a head into one block, which travels as a whole. A receive checks the block's head, sum and order, and
 * then copies the bytes to its caller. Each end remembers the last KEPT messages to and from each other rank, in tables of fixed size.
 */
#include "core/coll/messages/sealed.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "core/base/mem.h"

#define MAGIC 0x314c5359u /* "YSL1" */
#define ASK_MS 750        /* a receive asks when it has waited for so long, */
#define ASK_MOST_MS 3000  /* then after twice the time before, at most this */
#define STEP_MS 150       /* most that one look adds to a silence */
#define SERVE_MS 5        /* interval of looks for questions */

enum {
    KEPT = 512,   /* messages that each end remembers, per peer and direction */
    NEAR = KEPT / 2 /* the other end surely remembers a message that is not further back */
};

typedef struct seal_head {
    uint32_t sum; /* of the rest of the head, then of the bytes */
    uint32_t magic;
    uint64_t tag;
    uint64_t number; /* of the message, from 1 on, over all tags from this rank to that one */
    uint64_t before; /* number of the message before it on its tag; 0: none that the receiver surely remembers */
    uint64_t bytes;
} seal_head;

/* A message that was sent or received. */
typedef struct kept {
    uint64_t tag, number; /* number 0: free */
    bool done;
} kept;

typedef struct kept_list {
    kept at[KEPT];
    uint32_t next; /* the oldest, which the next one replaces */
} kept_list;

typedef enum question_kind { ASKED = 1, SENT, NOT_SENT } question_kind;

/* The bytes of a message on the tag of questions. */
typedef struct question {
    uint32_t kind, unused; /* question_kind */
    uint64_t tag;
    uint64_t after; /* ASKED: about the first message on the tag with a higher number; SENT: that message's number */
} question;

typedef struct seal_op {
    struct seal_op *next, **link; /* of a list: the open receives, with link; else link is NULL */
    yk_tr_op *inner;
    bool is_send;
    uint32_t peer;
    uint64_t tag, number; /* number: of a send; of the message that the answer SENT names, for a receive */
    void *to;             /* of a receive, */
    uint64_t capacity;        /* with so many bytes */
    int64_t asks_at, ask_ms; /* ms of the clock of the next question; ms from it to the one after it */
    int64_t silent_ms;    /* since the answer SENT */
    uint64_t heard;       /* the peer's count when silent_ms began */
    seal_head head;       /* as it travels: the bytes follow it at once */
    uint8_t bytes[];
} seal_op;

typedef struct seal_peer {
    kept_list sent, got;
    uint64_t numbers; /* messages sent so far */
    uint64_t heard;   /* messages received so far */
    seal_op *question; /* the receive of the next question or answer; NULL: the transport refused it */
    seal_op *said;     /* questions and answers on their way, a list */
} seal_peer;

struct yk__sealed {
    yk__sealed_config config;
    seal_peer *peer;
    seal_op *open; /* receives that are not done */
    int64_t served_at, counted_at; /* ms */
    bool moved;
};

static yk_status seal_fail(yk_tr_error *error, yk_status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static yk_status seal_fail(yk_tr_error *error, yk_status s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(error->text, sizeof error->text, fmt, args);
    va_end(args);
    return s;
}

/* ---- Messages that an end remembers ------------------------------------------------------------------------------ */

static void kept_add(kept_list *list, uint64_t tag, uint64_t number)
{
    list->at[list->next] = (kept){.tag = tag, .number = number};
    list->next = (list->next + 1) % KEPT;
}

/* The last message of a tag; NULL if there is none. */
static kept *kept_last(kept_list *list, uint64_t tag)
{
    kept *last = NULL;
    for (uint32_t i = 0; i < KEPT; i++) {
        kept *k = &list->at[i];
        if (k->number && k->tag == tag && (!last || k->number > last->number))
            last = k;
    }
    return last;
}

/* The first message of a tag behind that number; NULL if there is none. */
static const kept *kept_first_after(const kept_list *list, uint64_t tag, uint64_t after)
{
    const kept *first = NULL;
    for (uint32_t i = 0; i < KEPT; i++) {
        const kept *k = &list->at[i];
        if (k->tag == tag && k->number > after && (!first || k->number < first->number))
            first = k;
    }
    return first;
}

static kept *kept_by_number(kept_list *list, uint64_t number)
{
    for (uint32_t i = 0; i < KEPT; i++)
        if (list->at[i].number == number)
            return &list->at[i];
    return NULL;
}

/* ---- Heads ---------------------------------------------------------------------------------------------------------- */

static uint32_t seal_sum(const seal_head *head, const void *bytes)
{
    const uint32_t crc = yk__crc32c(0, (const uint8_t *)head + sizeof head->sum, sizeof *head - sizeof head->sum);
    return yk__crc32c_thirds(false, crc, bytes, head->bytes);
}

/* Checks a message of `came` bytes, with its head, that a receive of `tag` took. */
static yk_status head_check(const seal_op *op, uint64_t came, yk_tr_error *error)
{
    const seal_head *h = &op->head;
    uint32_t sum;
    if (came < sizeof *h || h->magic != MAGIC || h->bytes != came - sizeof *h)
        return seal_fail(error, YK_E_IO, "a message of rank %u came without a whole head (%llu bytes): the transport or its network "
                         "changes bytes, or cuts messages", op->peer, (unsigned long long)came);
    sum = seal_sum(h, op->bytes);
    if (sum != h->sum)
        return seal_fail(error, YK_E_IO, "message %llu of rank %u (%llu bytes) came with other bytes than were sent (checksum %08x, "
                         "expected %08x): the transport or its network changes bytes", (unsigned long long)h->number, op->peer,
                         (unsigned long long)h->bytes, sum, h->sum);
    if (h->tag != op->tag)
        return seal_fail(error, YK_E_IO, "message %llu of rank %u came with tag %llx to a receive of tag %llx: the transport mixes tags up",
                         (unsigned long long)h->number, op->peer, (unsigned long long)h->tag, (unsigned long long)op->tag);
    return YK_OK;
}

/* Checks the place of a message among those of its tag, and remembers it. */
static yk_status order_check(yk__sealed *s, const seal_op *op, yk_tr_error *error)
{
    seal_peer *p = &s->peer[op->peer];
    const seal_head *h = &op->head;
    const kept *last = kept_last(&p->got, h->tag);
    const uint64_t newest = last ? last->number : 0;
    if (h->number == newest)
        return seal_fail(error, YK_E_IO, "message %llu of rank %u came twice: the transport doubles messages",
                         (unsigned long long)h->number, op->peer);
    if (h->number < newest)
        return seal_fail(error, YK_E_IO, "message %llu of rank %u came behind message %llu of its tag: the transport doubles messages or "
                         "changes their order", (unsigned long long)h->number, op->peer, (unsigned long long)newest);
    if (h->before > newest)
        return seal_fail(error, YK_E_IO, "message %llu of rank %u came, and message %llu before it on its tag did not: the transport lost "
                         "it or changes the order of messages", (unsigned long long)h->number, op->peer, (unsigned long long)h->before);
    kept_add(&p->got, h->tag, h->number);
    return YK_OK;
}

/* ---- Operations ----------------------------------------------------------------------------------------------------- */

static yk_tr_op *op_out(seal_op *op)
{
    return (yk_tr_op *)(void *)op;
}

static seal_op *op_in(yk_tr_op *op)
{
    return (seal_op *)(void *)op;
}

static seal_op *op_new(bool is_send, uint32_t peer, uint64_t tag, uint64_t bytes, yk_tr_error *error)
{
    seal_op *op = bytes < UINT64_MAX / 2 ? yk__malloc(sizeof *op + bytes) : NULL;
    if (!op) {
        seal_fail(error, YK_E_MEM, "out of memory (%llu bytes of a sealed message)", (unsigned long long)bytes);
        return NULL;
    }
    *op = (seal_op){.is_send = is_send, .peer = peer, .tag = tag, .ask_ms = ASK_MS};
    return op;
}

static void op_unlink(seal_op *op)
{
    if (!op->link)
        return;
    *op->link = op->next;
    if (op->next)
        op->next->link = op->link;
    op->link = NULL;
}

static void op_link(yk__sealed *s, seal_op *op)
{
    op->next = s->open;
    op->link = &s->open;
    if (op->next)
        op->next->link = &op->next;
    s->open = op;
}

static yk_tr_range op_range(seal_op *op, uint64_t bytes)
{
    return (yk_tr_range){.data = &op->head, .bytes = sizeof op->head + bytes};
}

/* Fills the head of a send whose bytes are there, and begins it. */
static yk_status send_begin(yk__sealed *s, seal_op *op, uint64_t bytes, yk_tr_error *error)
{
    const yk__sealed_config *c = &s->config;
    seal_peer *p = &s->peer[op->peer];
    const kept *last = kept_last(&p->sent, op->tag);
    const yk_tr_range range = op_range(op, bytes);
    const uint64_t number = p->numbers + 1;
    yk_status status;
    op->head = (seal_head){.magic = MAGIC, .tag = op->tag, .number = number, .bytes = bytes};
    op->head.before = last && number - last->number < NEAR ? last->number : 0;
    op->head.sum = seal_sum(&op->head, op->bytes);
    op->number = number;
    status = c->table->send(c->tr, op->peer, op->tag, &range, &op->inner, error);
    if (status)
        return status;
    p->numbers++;
    kept_add(&p->sent, op->tag, number);
    return YK_OK;
}

static yk_status recv_begin(yk__sealed *s, seal_op *op, yk_tr_error *error)
{
    const yk__sealed_config *c = &s->config;
    const yk_tr_range range = op_range(op, op->capacity);
    return c->table->recv(c->tr, op->peer, op->tag, &range, &op->inner, error);
}

yk_status yk__sealed_send(yk__sealed *s, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **out, yk_tr_error *error)
{
    seal_op *op = op_new(true, peer, tag, from->bytes, error);
    yk_status status;
    if (!op)
        return YK_E_MEM;
    if (from->bytes)
        memcpy(op->bytes, from->data, from->bytes);
    status = send_begin(s, op, from->bytes, error);
    if (status)
        yk__free(op);
    else
        *out = op_out(op);
    return status;
}

yk_status yk__sealed_recv(yk__sealed *s, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **out, yk_tr_error *error)
{
    seal_op *op = op_new(false, peer, tag, to->bytes, error);
    yk_status status;
    if (!op)
        return YK_E_MEM;
    op->to = to->data;
    op->capacity = to->bytes;
    status = recv_begin(s, op, error);
    if (status) {
        yk__free(op);
        return status;
    }
    op->asks_at = yk__clock_ms() + op->ask_ms;
    op_link(s, op);
    *out = op_out(op);
    return YK_OK;
}

/* A receive that the transport has ended. */
static yk_status recv_end(yk__sealed *s, seal_op *op, yk_status status, uint64_t came, uint64_t *bytes, yk_tr_error *error)
{
    s->peer[op->peer].heard++;
    if (status) {
        if (bytes && came != UINT64_MAX) /* a message that is too long: its own length */
            *bytes = came < sizeof op->head ? 0 : came - sizeof op->head;
        return status;
    }
    status = head_check(op, came, error);
    if (!status)
        status = order_check(s, op, error);
    if (status)
        return status;
    if (op->head.bytes)
        memcpy(op->to, op->bytes, op->head.bytes);
    if (bytes)
        *bytes = op->head.bytes;
    return YK_OK;
}

static void send_end(yk__sealed *s, const seal_op *op)
{
    kept *k = kept_by_number(&s->peer[op->peer].sent, op->number);
    if (k)
        k->done = true;
}

yk_status yk__sealed_test(yk__sealed *s, yk_tr_op *given, int *done, uint64_t *bytes, yk_tr_error *error)
{
    const yk__sealed_config *c = &s->config;
    seal_op *op = op_in(given);
    uint64_t came = UINT64_MAX;
    yk_status status = c->table->test(c->tr, op->inner, done, &came, error);
    if (!*done)
        return status;
    s->moved = true;
    if (!op->is_send)
        status = recv_end(s, op, status, came, bytes, error);
    else if (!status)
        send_end(s, op);
    op_unlink(op);
    yk__free(op);
    return status;
}

void yk__sealed_cancel(yk__sealed *s, yk_tr_op *given)
{
    seal_op *op = op_in(given);
    kept *k = op->is_send ? kept_by_number(&s->peer[op->peer].sent, op->number) : NULL;
    if (k && !k->done) /* the other end takes it as never sent */
        *k = (kept){0};
    s->config.table->cancel(s->config.tr, op->inner);
    op_unlink(op);
    yk__free(op);
}

/* ---- Questions ------------------------------------------------------------------------------------------------------ */

/* Sends a question or an answer. If that fails, the one that waits asks again. */
static void question_say(yk__sealed *s, uint32_t peer, question_kind kind, uint64_t tag, uint64_t after)
{
    const question q = {.kind = kind, .tag = tag, .after = after};
    seal_peer *p = &s->peer[peer];
    yk_tr_error ignored; /* a transport that fails says so to the requests */
    seal_op *op = op_new(true, peer, s->config.question_tag, sizeof q, &ignored);
    if (!op)
        return;
    memcpy(op->bytes, &q, sizeof q);
    if (send_begin(s, op, sizeof q, &ignored)) {
        yk__free(op);
        return;
    }
    op->next = p->said;
    p->said = op;
}

/* Frees the questions and answers that have left. */
static void said_reap(yk__sealed *s, seal_peer *p)
{
    yk_tr_error ignored;
    for (seal_op **at = &p->said; *at;) {
        seal_op *op = *at;
        int done = 0;
        s->config.table->test(s->config.tr, op->inner, &done, NULL, &ignored);
        if (!done) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        yk__free(op);
    }
}

static void question_await(yk__sealed *s, uint32_t peer)
{
    yk_tr_error ignored;
    seal_op *op = op_new(false, peer, s->config.question_tag, sizeof(question), &ignored);
    if (op) {
        op->capacity = sizeof(question);
        if (recv_begin(s, op, &ignored)) {
            yk__free(op);
            op = NULL;
        }
    }
    s->peer[peer].question = op;
}

static void question_answer(yk__sealed *s, uint32_t peer, const question *q)
{
    const kept *k = kept_first_after(&s->peer[peer].sent, q->tag, q->after);
    if (k && k->done)
        question_say(s, peer, SENT, q->tag, k->number);
    else
        question_say(s, peer, NOT_SENT, q->tag, q->after);
}

/* Notes that a peer has sent the message that the oldest receive of the tag waits for; the list has the youngest first. */
static void answer_note(yk__sealed *s, uint32_t peer, const question *q)
{
    seal_op *oldest = NULL;
    for (seal_op *op = s->open; op; op = op->next)
        if (op->peer == peer && op->tag == q->tag)
            oldest = op;
    if (!oldest || oldest->number == q->after)
        return;
    oldest->number = q->after;
    oldest->silent_ms = 0;
    oldest->heard = s->peer[peer].heard;
}

/* Reads a question or answer that came. One that is spoiled counts as none, as it is asked again. */
static void question_take(yk__sealed *s, uint32_t peer, const seal_op *op, uint64_t came)
{
    question q;
    yk_tr_error ignored;
    if (head_check(op, came, &ignored) || op->head.bytes != sizeof q)
        return;
    memcpy(&q, op->bytes, sizeof q);
    if (q.kind == ASKED)
        question_answer(s, peer, &q);
    else if (q.kind == SENT)
        answer_note(s, peer, &q);
}

static void peer_serve(yk__sealed *s, uint32_t peer)
{
    const yk__sealed_config *c = &s->config;
    seal_peer *p = &s->peer[peer];
    yk_tr_error ignored;
    uint64_t came = 0;
    int done = 0;
    yk_status status;
    said_reap(s, p);
    if (!p->question)
        return;
    status = c->table->test(c->tr, p->question->inner, &done, &came, &ignored);
    if (!done)
        return;
    if (!status)
        question_take(s, peer, p->question, came);
    yk__free(p->question);
    p->question = NULL;
    if (!status) /* else the peer has left, or the transport has failed */
        question_await(s, peer);
}

void yk__sealed_serve(yk__sealed *s, int64_t now)
{
    if (now - s->served_at < SERVE_MS)
        return;
    s->served_at = now;
    for (uint32_t r = 0; r < s->config.ranks; r++)
        if (r != s->config.rank)
            peer_serve(s, r);
}

/* ---- Lost messages -------------------------------------------------------------------------------------------------- */

static void op_ask(yk__sealed *s, seal_op *op, int64_t now)
{
    const kept *last = kept_last(&s->peer[op->peer].got, op->tag);
    if (now < op->asks_at)
        return;
    question_say(s, op->peer, ASKED, op->tag, last ? last->number : 0);
    op->ask_ms = op->ask_ms * 2 < ASK_MOST_MS ? op->ask_ms * 2 : ASK_MOST_MS;
    op->asks_at = now + op->ask_ms;
}

static bool op_is_lost(const yk__sealed *s, seal_op *op, int64_t step)
{
    const uint64_t heard = s->peer[op->peer].heard;
    if (!op->number)
        return false;
    op->silent_ms = op->heard == heard ? op->silent_ms + step : 0;
    op->heard = heard;
    return op->silent_ms >= s->config.lost_ms;
}

yk_status yk__sealed_look(yk__sealed *s, int64_t now, yk_tr_error *error)
{
    const int64_t passed = now - s->counted_at, step = passed < STEP_MS ? passed : STEP_MS;
    s->counted_at = now;
    for (seal_op *op = s->open; op && s->config.lost_ms; op = op->next) {
        op_ask(s, op, now);
        if (op_is_lost(s, op, step))
            return seal_fail(error, YK_E_IO, "message %llu of rank %u to rank %u, of at most %llu bytes, is lost: rank %u sent it, and "
                             "nothing of it came for %.1f s: the transport or its network loses messages",
                             (unsigned long long)op->number, op->peer, s->config.rank, (unsigned long long)op->capacity, op->peer,
                             (double)s->config.lost_ms / 1000);
    }
    return YK_OK;
}

bool yk__sealed_moved(yk__sealed *s)
{
    const bool moved = s->moved;
    s->moved = false;
    return moved;
}

/* ---- Beginning and end ---------------------------------------------------------------------------------------------- */

yk_status yk__sealed_new(const yk__sealed_config *config, yk__sealed **sealed, yk_tr_error *error)
{
    yk__sealed *s = yk__calloc(1, sizeof *s);
    if (s)
        s->peer = yk__calloc(config->ranks, sizeof *s->peer);
    if (!s || !s->peer) {
        yk__free(s);
        return seal_fail(error, YK_E_MEM, "out of memory (seals of messages of %u ranks)", config->ranks);
    }
    s->config = *config;
    s->counted_at = yk__clock_ms();
    for (uint32_t r = 0; r < config->ranks; r++)
        if (r != config->rank)
            question_await(s, r);
    *sealed = s;
    return YK_OK;
}

void yk__sealed_free(yk__sealed *s)
{
    if (!s)
        return;
    for (uint32_t r = 0; r < s->config.ranks; r++) {
        if (s->peer[r].question)
            yk__sealed_cancel(s, op_out(s->peer[r].question));
        while (s->peer[r].said) {
            seal_op *op = s->peer[r].said;
            s->peer[r].said = op->next;
            yk__sealed_cancel(s, op_out(op));
        }
    }
    yk__free(s->peer);
    yk__free(s);
}
