// The mock libcuda.so.1: the GPUs that CUDA_VISIBLE_DEVICES names, as the driver describes them. Without it the host has 8.
//
//	number n      GPU n, on PCI bus 0x10 + n
//	GPU-HEX…      the GPU with that UUID, or a beginning of it; its PCI address comes from the UUID
//	MIG-HEX…      an instance of GPU 0, with that UUID
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define HOST_GPUS 8

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101 };

struct gpu {
  uint8_t uuid[16];
  char name[64], pci[16];
};

// of_number describes a GPU that is named by its number.
static void of_number(struct gpu *g, unsigned n) {
  memset(g->uuid, (int)(0x10 + n), sizeof g->uuid);
  snprintf(g->name, sizeof g->name, "Mock GPU");
  snprintf(g->pci, sizeof g->pci, "0000:%02X:00.0", (0x10 + n) & 0xff);
}

// of_uuid describes one that is named by its UUID: the rest of a UUID of which only the beginning is given is 0.
static void of_uuid(struct gpu *g, const char *text, size_t length) {
  int mig = strncmp(text, "MIG-", 4) == 0;
  memset(g->uuid, 0, sizeof g->uuid);
  for (size_t i = 4, digits = 0; i < length && digits < 32; i++) {
    const char *hex = "0123456789abcdef", *at = strchr(hex, text[i] | 0x20);
    if (text[i] == '-' || at == NULL) continue;
    g->uuid[digits / 2] |= (uint8_t)((at - hex) << (digits % 2 == 0 ? 4 : 0));
    digits++;
  }
  snprintf(g->name, sizeof g->name, mig ? "Mock GPU MIG 1g.18gb" : "Mock GPU");
  if (mig) snprintf(g->pci, sizeof g->pci, "0000:10:00.0");
  else snprintf(g->pci, sizeof g->pci, "%02X%02X:%02X:00.0", g->uuid[0], g->uuid[1], g->uuid[2]);
}

// find describes a device; 0: there is none.
static int find(int device, struct gpu *g) {
  const char *at = getenv("CUDA_VISIBLE_DEVICES");
  if (device < 0) return 0;
  if (at == NULL) {
    of_number(g, (unsigned)device);
    return device < HOST_GPUS;
  }
  for (int i = 0; *at != 0; i++, at += *at == ',') {
    size_t length = strcspn(at, ",");
    if (i == device) {
      if (length > 4 && (strncmp(at, "GPU-", 4) == 0 || strncmp(at, "MIG-", 4) == 0)) of_uuid(g, at, length);
      else of_number(g, (unsigned)strtoul(at, NULL, 10));
      return 1;
    }
    at += length;
  }
  return 0;
}

EXPORT int cuDriverGetVersion(int *version) {
  *version = 13000;
  return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count) {
  struct gpu g;
  for (*count = 0; find(*count, &g); (*count)++) {}
  return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
  struct gpu g;
  *device = ordinal;
  return find(ordinal, &g) ? SUCCESS : INVALID_DEVICE;
}

static int copy(char *to, int room, const char *text) {
  if (room <= 0) return INVALID_VALUE;
  snprintf(to, (size_t)room, "%s", text);
  return SUCCESS;
}

EXPORT int cuDeviceGetName(char *name, int room, int device) {
  struct gpu g;
  return find(device, &g) ? copy(name, room, g.name) : INVALID_DEVICE;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int room, int device) {
  struct gpu g;
  return find(device, &g) ? copy(id, room, g.pci) : INVALID_DEVICE;
}

EXPORT int cuDeviceGetUuid_v2(uint8_t *uuid, int device) {
  struct gpu g;
  if (!find(device, &g)) return INVALID_DEVICE;
  memcpy(uuid, g.uuid, sizeof g.uuid);
  return SUCCESS;
}
