// Which hosts have no GPU that could have HES.
#include "capture/gpus.h"

#include "check.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

// too_old tells it of a host with the devices of these ids; what else lies in the driver's folder does not matter.
static bool too_old(const char *first, const char *second) {
  char path[256], root[] = "/tmp/gpus_test.XXXXXX";
  const char *ids[] = {first, second};
  CHECK(mkdtemp(root) != NULL);
  snprintf(path, sizeof path, "%s/nvidia", root);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/nvidia/new_id", root);
  put(path, "");
  for (int i = 0; i < 2; i++) {
    if (ids[i] == NULL) continue;
    snprintf(path, sizeof path, "%s/nvidia/0000:00:0%d.0", root, i);
    mkdir(path, 0700);
    strcat(path, "/device");
    put(path, ids[i]);
  }
  bool answer = gpus_too_old(root);
  snprintf(path, sizeof path, "rm -r %s", root);
  CHECK_EQUAL(system(path), 0);
  return answer;
}

// in_order lists the GPUs of a host whose folder has them in another order, beside files that are none.
static void in_order(void) {
  char path[256], text[1024], root[] = "/tmp/gpus_test.XXXXXX";
  static const char *const entries[] = {"0000:af:00.0", "0000:3b:00.0", "new_id", "module", "0001:00:00.0"};
  CHECK(mkdtemp(root) != NULL);
  snprintf(path, sizeof path, "%s/nvidia", root);
  mkdir(path, 0700);
  for (int i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s/nvidia/%s", root, entries[i]);
    mkdir(path, 0700);
  }
  CHECK(strcmp(gpus_of_host(root, text, sizeof text), "0000:3b:00.0,0000:af:00.0,0001:00:00.0") == 0);
  CHECK(strcmp(gpus_of_host(root, text, 40), "0000:3b:00.0,0000:af:00.0") == 0); // whole addresses only
  CHECK(*gpus_of_host("/nowhere", text, sizeof text) == 0);
  snprintf(path, sizeof path, "rm -r %s", root);
  CHECK_EQUAL(system(path), 0);
  char address[] = "0000:AF:00.0";
  gpus_lower(address);
  CHECK(strcmp(address, "0000:af:00.0") == 0);
}

int main(void) {
  in_order();
  CHECK(too_old("0x2335\n", NULL));        // H200
  CHECK(too_old("0x2330\n", "0x28e0\n"));  // H100, AD107
  CHECK(!too_old("0x2901\n", NULL));       // B200
  CHECK(!too_old("0x2335\n", "0x2b85\n")); // H200 and RTX 5090
  CHECK(!too_old("0x2335\n", "nonsense")); // not to be ruled out
  CHECK(!too_old(NULL, NULL));
  CHECK(!gpus_too_old("/nowhere"));
  return 0;
}
