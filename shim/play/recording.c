#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <zstd.h>
#include "map.h"
#include "recording.h"

enum { KERNEL = 10, MEMCPY = 1, MEMSET = 2, PEER = 22 };

static void *grow(void *items, size_t n, size_t *room, size_t size) {
  if (n < *room) return items;
  *room = *room ? *room * 2 : 1024;
  if (!(items = realloc(items, *room * size))) abort();
  return items;
}

static uint8_t *read_file(const char *path, size_t *length) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    fprintf(stderr, "kernhes-play: %s: %s\n", path, strerror(errno));
    return NULL;
  }
  uint8_t *bytes = NULL;
  size_t n = 0, room = 0, got;
  do {
    if (n == room && !(bytes = realloc(bytes, room = room ? room * 2 : 1 << 20))) abort();
    n += got = fread(bytes + n, 1, room - n, f);
  } while (got);
  fclose(f);
  *length = n;
  return bytes;
}

// unpack undoes zstd; a file without its magic is taken as it is.
static uint8_t *unpack(const char *path, uint8_t *packed, size_t length, size_t *unpacked) {
  if (length < 4 || get32(packed, 0) != ZSTD_MAGICNUMBER) {
    *unpacked = length;
    return packed;
  }
  ZSTD_DCtx *context = ZSTD_createDCtx();
  uint8_t *bytes = NULL;
  size_t n = 0, room = 0, left = 0;
  ZSTD_inBuffer in = {packed, length, 0};
  do {
    if (n == room && !(bytes = realloc(bytes, room = room ? room * 2 : 32 << 20))) abort();
    ZSTD_outBuffer out = {bytes + n, room - n, 0};
    left = ZSTD_decompressStream(context, &out, &in);
    n += out.pos;
    if (ZSTD_isError(left) || (left && in.pos == in.size && out.pos < out.size)) {
      fprintf(stderr, "kernhes-play: %s: zstd: %s\n", path, ZSTD_isError(left) ? ZSTD_getErrorName(left) : "cut short");
      free(bytes);
      bytes = NULL;
      break;
    }
  } while (in.pos < in.size || left);
  ZSTD_freeDCtx(context);
  free(packed);
  *unpacked = n;
  return bytes;
}

// The meta frame is one flat JSON object of numbers and plain strings.
static bool meta_value(const frame *f, const char *key, char *value, size_t size) {
  char *text = strndup((const char *)f->body, f->length), quoted[40];
  if (!text) abort();
  snprintf(quoted, sizeof quoted, "\"%s\"", key);
  char *at = strstr(text, quoted);
  bool found = at && (at = strchr(at + strlen(quoted), ':')) != NULL;
  if (found) {
    at += 1 + strspn(at + 1, " \t\"");
    size_t n = strcspn(at, "\",}");
    snprintf(value, size, "%.*s", (int)n, at);
  }
  free(text);
  return found;
}

static const size_t least[] = {[META] = 2, [NAME] = 8, [LAUNCH] = 24, [PUSH] = 24, [POP] = 24, [DROPPED] = 8, [NODE_CREATED] = 16,
                               [NODE_CLONED] = 16, [CLOCKS] = 32, [GRAPH_EXEC] = 8, [DOMAIN] = 4, [CAPTURED] = 4, [SCHEMA] = 24,
                               [PUSH_PAYLOAD] = 40, [POP_PAYLOAD] = 40};

typedef struct {
  recording *r;
  size_t kernel_size, room_records, room_threads, room_names;
  map names, threads, launches; // launches: correlation id → index of the latest launch frame + 1
} reader;

static uint32_t thread_index(reader *rd, uint32_t id) {
  recording *r = rd->r;
  uint64_t index = map_get(&rd->threads, id, UINT64_MAX);
  if (index != UINT64_MAX) return (uint32_t)index;
  r->threads = grow(r->threads, r->n_threads, &rd->room_threads, sizeof *r->threads);
  r->threads[r->n_threads] = id;
  map_put(&rd->threads, id, r->n_threads);
  return r->n_threads++;
}

static void note_context(recording *r, uint32_t context, uint32_t device) {
  for (uint32_t i = 0; i < r->n_contexts; i++)
    if (r->contexts[i].context == context) return;
  if (r->n_contexts < sizeof r->contexts / sizeof *r->contexts) r->contexts[r->n_contexts++] = (gpu_context){context, device};
}

static bool read_records(reader *rd, frame *f) {
  recording *r = rd->r;
  f->record = r->n_records;
  for (size_t at = 0; at < f->length;) {
    const uint8_t *b = f->body + at;
    size_t left = f->length - at, size = 0;
    uint32_t kind = left >= 4 ? get32(b, 0) : 0;
    if (kind == KERNEL) size = rd->kernel_size;
    else if (kind == MEMCPY || kind == PEER) size = 96;
    else if (kind == MEMSET) size = 88;
    if (!size || size > left) {
      fprintf(stderr, "kernhes-play: %s: raw frame at byte %zu: record at byte %zu of kind %u: %s\n", r->path,
              (size_t)(f->body - r->bytes), at, kind, size ? "cut short" : "not known");
      return false;
    }
    r->records = grow(r->records, r->n_records, &rd->room_records, sizeof *r->records);
    mock_record *m = &r->records[r->n_records++];
    *m = (mock_record){.bytes = b, .size = (uint32_t)size};
    if (kind == KERNEL) {
      m->name = (const char *)(uintptr_t)map_get(&rd->names, get64(b, 104), 0);
      note_context(r, get32(b, 44), get32(b, 40));
      r->kernels++;
    } else {
      r->copies++;
    }
    uint64_t end = get64(b, 24);
    if (end > r->last) r->last = end;
    at += size;
  }
  f->records = r->n_records - f->record;
  return true;
}

static bool read_meta(reader *rd, const frame *f) {
  char value[24] = "";
  recording *r = rd->r;
  if (!meta_value(f, "format", value, sizeof value) || strcmp(value, "2")) {
    fprintf(stderr, "kernhes-play: %s: format '%s', want 2\n", r->path, value);
    return false;
  }
  if (meta_value(f, "cupti", value, sizeof value)) r->cupti = (uint32_t)strtoul(value, NULL, 10);
  if (meta_value(f, "kernel_record", value, sizeof value)) rd->kernel_size = strtoul(value, NULL, 10);
  if (meta_value(f, "rank", value, sizeof value) && strcmp(value, "null")) memcpy(r->rank, value, sizeof r->rank);
  if (rd->kernel_size >= 208 && rd->kernel_size <= 248 && rd->kernel_size % 8 == 0) return true;
  fprintf(stderr, "kernhes-play: %s: kernel records of %zu bytes, want 208 to 248\n", r->path, rd->kernel_size);
  return false;
}

// place gives the frame its time and its thread; before is the frame before it.
static bool place(reader *rd, frame *f, size_t index, const frame *before) {
  recording *r = rd->r;
  f->time = before ? before->time : 0;
  f->thread = before ? before->thread : 0;
  switch (f->kind) {
  case META: return read_meta(rd, f);
  case RAW: return read_records(rd, f);
  case NAME: {
    char *name = strndup((const char *)f->body + 8, f->length - 8);
    if (!name) abort();
    r->names = grow(r->names, r->n_names, &rd->room_names, sizeof *r->names);
    r->names[r->n_names++] = name;
    map_put(&rd->names, get64(f->body, 0), (uint64_t)(uintptr_t)name);
    break;
  }
  case LAUNCH:
    f->time = get64(f->body, 0);
    f->thread = thread_index(rd, get32(f->body, 16));
    map_put(&rd->launches, get32(f->body, 8), index + 1);
    r->launches++;
    break;
  case PUSH_PAYLOAD:
  case POP_PAYLOAD:
    if (get32(f->body, 36) > f->length - 40) {
      fprintf(stderr, "kernhes-play: %s: frame %zu: payload of %u bytes, of which %u are there\n", r->path, index, get32(f->body, 36),
              f->length - 40);
      return false;
    }
    // fall through
  case PUSH:
  case POP:
    f->time = get64(f->body, 0);
    f->thread = thread_index(rd, get32(f->body, 8));
    break;
  case NODE_CREATED: f->thread = thread_index(rd, get32(f->body, 12)); break;
  case CLOCKS: f->time = get64(f->body, 0); break;
  case CAPTURED: {
    uint64_t launch = map_get(&rd->launches, get32(f->body, 0), 0);
    if (!launch) break; // of a launch before the recording began
    frame *l = &r->frames[launch - 1];
    l->captured = true;
    f->thread = l->thread;
    break;
  }
  }
  if (f->time && (!r->first || f->time < r->first)) r->first = f->time;
  if (f->time > r->last) r->last = f->time;
  return true;
}

static bool read_frames(reader *rd) {
  recording *r = rd->r;
  size_t room = 0;
  for (size_t at = 0; at < r->length;) {
    size_t left = r->length - at;
    uint32_t kind = left >= 8 ? get32(r->bytes, at) : 0, length = left >= 8 ? get32(r->bytes, at + 4) : 0;
    size_t want = kind < sizeof least / sizeof *least ? least[kind] : 0;
    if (left < 8 || length > left - 8 || length < want) {
      fprintf(stderr, "kernhes-play: %s: frame at byte %zu: kind %u, %u bytes; %zu bytes are left, want %zu\n", r->path, at, kind,
              length, left, want);
      return false;
    }
    r->frames = grow(r->frames, r->n_frames, &room, sizeof *r->frames);
    frame *f = &r->frames[r->n_frames];
    *f = (frame){.body = r->bytes + at + 8, .length = length, .kind = kind <= POP_PAYLOAD ? (uint8_t)kind : 0};
    if (!r->n_frames && kind != META) {
      fprintf(stderr, "kernhes-play: %s: begins with a frame of kind %u, want 1: not a recording\n", r->path, kind);
      return false;
    }
    if (!place(rd, f, r->n_frames, r->n_frames ? f - 1 : NULL)) return false;
    r->n_frames++;
    at += 8 + (size_t)length;
  }
  return true;
}

static void note_correlations(recording *r) {
  uint64_t seen = 0;
  for (size_t i = 0; i < r->n_frames; i++) {
    if (r->frames[i].kind != LAUNCH) continue;
    uint32_t id = get32(r->frames[i].body, 8);
    if (!seen || id < r->correlation_low) r->correlation_low = id;
    if (!seen || id > r->correlation_high) r->correlation_high = id;
    if (seen++ == r->launches / 2) r->correlation_middle = id;
  }
}

void free_recording(recording *r) {
  for (size_t i = 0; i < r->n_names; i++) free(r->names[i]);
  free(r->names);
  free(r->bytes);
  free(r->frames);
  free(r->records);
  free(r->threads);
}

bool read_recording(const char *path, recording *r) {
  *r = (recording){.path = path};
  size_t length;
  uint8_t *file = read_file(path, &length);
  if (!file || !(r->bytes = unpack(path, file, length, &r->length))) return false;
  reader rd = {.r = r, .kernel_size = 216};
  bool sound = read_frames(&rd);
  map_free(&rd.names);
  map_free(&rd.threads);
  map_free(&rd.launches);
  if (sound && !r->first) {
    fprintf(stderr, "kernhes-play: %s: no frame has a time\n", path);
    return false;
  }
  if (!r->n_threads) r->n_threads = 1; // nothing happened on any
  for (size_t i = 0; sound && i < r->n_frames && !r->frames[i].time; i++) r->frames[i].time = r->first;
  note_correlations(r);
  return sound;
}
