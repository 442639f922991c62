// The queue of unacknowledged frames.
#include "transport/queue.h"

#include "transport/wire.h"

#define HUSKS_MAX 65536u // 6 MB of them; past it the oldest is given up as received

static void lose(struct queue *q, struct stake s) { losses_add(q->losses, s.reason, s.what, s.is); }

void queue_add(struct queue *q, uint16_t kind, const void *body, uint32_t length, struct stake stake) {
  struct frame *f = malloc(sizeof *f);
  uint8_t *bytes = malloc(sizeof(kw_frame) + length);
  if (f == NULL || bytes == NULL) {
    free(f);
    free(bytes);
    lose(q, stake);
    return;
  }
  kw_frame head = {.length = length, .kind = kind, .number = ++q->number};
  memcpy(bytes, &head, sizeof head);
  if (length > 0) memcpy(bytes + sizeof head, body, length);
  *f = (struct frame){
      .number = head.number, .kind = kind, .size = (uint32_t)sizeof head + length, .stake = stake, .bytes = bytes};
  if (q->last != NULL) q->last->next = f;
  else q->first = f;
  q->last = f;
  if (q->next == NULL) q->next = f;
  q->bytes += f->size;
  if (q->bytes > q->most) q->most = q->bytes;
}

static void fold(struct queue *q, struct frame *f) {
  f->launched = base_fold(&q->base, f->number, f->kind, f->bytes + sizeof(kw_frame), f->size - (uint32_t)sizeof(kw_frame),
                          &f->correlation);
  q->bytes -= f->size;
}

// settle notes that a collector has had a folded frame: records of its launches are known from then on as ones that it
// has settled. Those of a frame that was lost are of a launch that nobody saw.
static void settle(struct queue *q, const struct frame *f) {
  if (!f->launched) return;
  q->base.correlation = f->correlation;
  q->base.launched = true;
}

static void remove_first(struct queue *q) {
  struct frame *f = q->first;
  q->first = f->next;
  if (q->last == f) q->last = NULL;
  if (q->next == f) q->next = f->next;
  if (f->husk) q->husks--;
  free(f->bytes);
  free(f);
}

static bool is_sent(const struct queue *q, const struct frame *f) { return f->sending || f->number <= q->sent; }

bool queue_trim(struct queue *q) {
  bool gap = false;
  struct frame *before = NULL, *f = q->first; // husks are the first in the queue
  while (f != NULL && f->husk) before = f, f = f->next;
  while (q->bytes > q->bound && f != NULL && f->kind != KW_BYE) {
    struct frame *next = f->next;
    fold(q, f);
    if (is_sent(q, f)) {
      f->husk = true;
      q->husks++;
      if (!f->sending) {
        free(f->bytes);
        f->bytes = NULL;
      }
      before = f;
    } else {
      lose(q, f->stake);
      gap = true;
      if (before != NULL) before->next = next;
      else q->first = next;
      if (q->last == f) q->last = before;
      if (q->next == f) q->next = next;
      free(f->bytes);
      free(f);
    }
    f = next;
  }
  while (q->husks > HUSKS_MAX && !q->first->sending) remove_first(q);
  return gap;
}

bool queue_acknowledge(struct queue *q, uint64_t number) {
  if (number > q->sent) return false;
  while (q->first != NULL && q->first->number <= number) {
    if (!q->first->husk) fold(q, q->first);
    settle(q, q->first);
    remove_first(q);
  }
  return true;
}

bool queue_resume(struct queue *q, uint64_t acknowledged, uint64_t received) {
  uint64_t most = q->ever > q->base.number ? q->ever : q->base.number; // a snapshot stands for what it was folded from
  if (acknowledged > received || received > most) return false;
  q->sent = received;
  queue_acknowledge(q, acknowledged);
  while (q->first != NULL && q->first->husk) {
    if (q->first->number > received) lose(q, q->first->stake);
    else settle(q, q->first);
    remove_first(q);
  }
  // A collector that starts from the snapshot, or missed frames before its end, may acknowledge up to there.
  if (q->sent < q->base.number) q->sent = q->base.number;
  q->next = q->first;
  while (q->next != NULL && q->next->number <= received) q->next = q->next->next;
  return true;
}

struct frame *queue_send(struct queue *q) {
  struct frame *f = q->next;
  if (f == NULL) return NULL;
  f->sending = true;
  q->next = f->next;
  return f;
}

void queue_sent(struct queue *q, struct frame *f) {
  q->sent = f->number;
  if (q->ever < q->sent) q->ever = q->sent;
  queue_unsent(q, f);
}

void queue_unsent(struct queue *q, struct frame *f) {
  (void)q;
  f->sending = false;
  if (f->husk) {
    free(f->bytes);
    f->bytes = NULL;
  }
}

void queue_free(struct queue *q) {
  while (q->first != NULL) remove_first(q);
  base_free(&q->base);
}
