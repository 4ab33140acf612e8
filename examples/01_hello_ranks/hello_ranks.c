/* Four ranks in one process, made and asked for their numbers through the C API.
 *
 * A communicator is a group of ranks that work together; an lpComm_t is one rank of it. A process
 * may hold any number of ranks. Here one thread holds all four, which is enough to create, ask and
 * destroy them. (Collectives need every rank to make its call: see example 02.) */
#include <lamppost/lamppost.h>
#include <stdio.h>

enum { kRankCount = 4 };

/* Every function returns an lpResult_t. lpGetErrorString names its kind, lpGetLastError(NULL) has
 * the sentence that says what exactly was wrong in the calling thread's last failed call. */
static int failed(const char* what, lpResult_t result) {
  if (result == LP_SUCCESS) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, lpGetErrorString(result), lpGetLastError(NULL));
  return 1;
}

int main(void) {
  /* The header's version is what this program was compiled with, lpGetVersion what it runs with. */
  printf("Lamppost %d.%d.%d, library %d\n", LP_VERSION_MAJOR, LP_VERSION_MINOR, LP_VERSION_PATCH,
         lpGetVersion());

  /* Options start from the initializer. LP_BACKEND_HOST runs the ranks on CPU cores. */
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.backend = LP_BACKEND_HOST;

  lpComm_t comms[kRankCount];
  if (failed("lpCommInitAll", lpCommInitAll(comms, kRankCount, NULL, &config))) return 1;

  int status = 0;
  for (int i = 0; i < kRankCount; ++i) {
    int rank = -1;
    int count = 0;
    if (failed("lpCommUserRank", lpCommUserRank(comms[i], &rank)) ||
        failed("lpCommCount", lpCommCount(comms[i], &count))) {
      status = 1;
      break;
    }
    printf("hello from rank %d of %d\n", rank, count);
  }

  /* Destroying is local: one thread may destroy its ranks one after the other. */
  for (int i = 0; i < kRankCount; ++i) {
    if (failed("lpCommDestroy", lpCommDestroy(comms[i]))) status = 1;
  }
  return status;
}
