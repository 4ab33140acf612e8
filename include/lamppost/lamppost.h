/* Lamppost: small, fused, latency-bound collectives for LLM inference. C ABI (C99).
 *
 * Conventions of every function below
 * - Result: lpResult_t; LP_SUCCESS is 0. lpGetLastError() has the sentence that goes with an error.
 * - "collective": every rank of the communicator must call it, in the same order, with equal values
 *   of the arguments named as collective. "local": no other rank is involved.
 * - "enqueues": the call returns once the work is in the stream; failures of the work itself show
 *   in lpCommGetAsyncError(). "blocks": the call waits, never longer than the deadline it names.
 * - Thread safety: calls on *one* communicator are serialised by the caller, from any thread;
 *   calls on different communicators are independent. lpCommGetAsyncError, lpCommGetHealth and
 *   lpCommSetTimeout may be called at any time from any thread while the communicator exists.
 * - Pointers are "device memory" of the communicator's backend. On GPUs: memory that the device can
 *   reach (ordinary host memory is refused where it cannot). On the host backend that is any memory
 *   of the process (malloc, stack, mmap).
 * - A wrong argument is refused on the host, before anything is launched, by an error that names
 *   the argument and its value.
 *
 * What users may rely on
 * - Results are bitwise equal on all ranks and from run to run, for a row whatever the batch around
 *   it, and whatever algorithm, block shape or lane count was chosen. Sums start from +0.0f and add
 *   ranks 0, 1, ..., N-1 in fp32; the sum is rounded once to the payload type.
 * - fused(x) on N ranks == fused at world 1 on lpAllReduce(x), all outputs, bit for bit.
 * - bf16, fp16, fp32: finite non-zero values and Inf pass bit-equal through a sum with zeros; NaN
 *   gives one canonical NaN (0x7fff, 0x7fffffff); -0 comes out as +0.
 * - |sum - exact sum| <= N * 2^-24 * sum|x_i| + half an ulp of the payload type.
 * - World sizes 1 to 16 today (tables and layouts hold 72), any count including 0, hidden sizes 1
 *   to 65,536, any element-aligned pointer; 16-byte aligned pointers and rows take the fast path.
 * - Every collective can be captured into a graph after creation; only the caller's stream is used.
 * - A call does not hang: a missing peer becomes an error that names it, unless the timeout is 0.
 *   After an error every output element of the failed call is right or NaN ("poison"), and in-place
 *   inputs and residuals of that call are lost. LP_SUCCESS says only that this rank's output is right.
 *   The kernel ends normally: other work of the device, its streams and a new communicator go on. A
 *   graph that holds calls on the failed communicator replays without waiting, and gives NaN; capture
 *   it anew on the new communicator.
 * - The caller's input may be overwritten right after the call in stream order.
 */
#ifndef LAMPPOST_LAMPPOST_H_
#define LAMPPOST_LAMPPOST_H_

#include <stddef.h>
#include <stdint.h>

#if defined(LAMPPOST_STATIC)
#define LAMPPOST_API
#elif defined(__GNUC__)
#define LAMPPOST_API __attribute__((visibility("default")))
#else
#define LAMPPOST_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LP_VERSION_MAJOR 0
#define LP_VERSION_MINOR 1
#define LP_VERSION_PATCH 0
/* 10000 * major + 100 * minor + patch. */
#define LP_VERSION (LP_VERSION_MAJOR * 10000 + LP_VERSION_MINOR * 100 + LP_VERSION_PATCH)

/* Ranks that tables, layouts and health records have room for. */
#define LP_MAX_RANKS 72
/* Ranks a communicator may have in this version. */
#define LP_MAX_WORLD_TODAY 16
/* Largest `hidden` of the fused collectives, in elements. */
#define LP_MAX_HIDDEN 65536

/* One rank of one communicator. One rank is one device; a process may hold any number of ranks. */
typedef struct lpComm* lpComm_t;
/* A stream and a captured graph of the host backend (on GPUs: the vendor's own). */
typedef struct lpStream* lpStream_t;
typedef struct lpGraph* lpGraph_t;

/* ---- Results --------------------------------------------------------------------------------- */

typedef enum lpResult_t {
  LP_SUCCESS = 0,
  /* The caller's mistakes: nothing was launched, the communicator is as before. */
  LP_ERROR_INVALID_ARGUMENT = 1, /* a value is out of range, null, misaligned or overlapping */
  LP_ERROR_INVALID_USAGE = 2,    /* right values at the wrong time or place */
  LP_ERROR_INVALID_HANDLE = 3,   /* null, destroyed or foreign handle */
  LP_ERROR_NOT_SUPPORTED = 4,    /* this build, device or version cannot; the text says which */
  LP_ERROR_NOT_CAPTURABLE = 5,   /* refused because a stream is being captured, or its capture broke */
  LP_ERROR_BUSY = 6,             /* two unordered calls on one communicator in one capture (not in
                                    this version: calls of one capture are put in order) */
  LP_ERROR_VERSION = 7,          /* struct or library of another version; nothing was read */
  /* The machine's refusals. */
  LP_ERROR_OUT_OF_MEMORY = 16,   /* host or device memory */
  LP_ERROR_RESOURCE_LIMIT = 17,  /* file descriptors, mappings, block budget, ... */
  LP_ERROR_SYSTEM = 18,          /* an operating system call failed; the text has errno */
  LP_ERROR_DRIVER = 19,          /* a GPU driver call failed; the text has its name and code */
  LP_ERROR_BOOTSTRAP = 20,       /* ranks could not reach each other or disagree at creation */
  /* What went wrong between ranks. Sticky: every later call on the communicator returns it. */
  LP_ERROR_TIMEOUT = 32,         /* a peer is late: it may still be alive */
  LP_ERROR_PEER_LOST = 33,       /* a peer is known to be dead */
  LP_ERROR_ABORTED = 34,         /* another rank failed first and said so, or the user aborted */
  LP_ERROR_MISMATCH = 35,        /* ranks made different calls */
  LP_ERROR_ORDER = 36,           /* ranks made calls in different orders */
  LP_ERROR_CORRUPT = 37,         /* impossible protocol state: overwritten, or two calls in flight */
  LP_ERROR_SUSPENDED = 38,       /* the communicator's memory is suspended */
  LP_ERROR_INTERNAL = 63         /* a defect in Lamppost */
} lpResult_t;

/* A short constant text ("a peer is late"). Local, any thread, never null. */
LAMPPOST_API const char* lpGetErrorString(lpResult_t result);
/* The sentence of the last error on `comm`, or, with NULL, of the calling thread's last error (this
 * is the one to ask when an init function failed). Never null; valid until the next failing call on
 * the same communicator or thread. Local. */
LAMPPOST_API const char* lpGetLastError(lpComm_t comm);
/* LP_VERSION of the library that is loaded. Local. */
LAMPPOST_API int lpGetVersion(void);

/* ---- Types ----------------------------------------------------------------------------------- */

/* Values of the types that NCCL has too are NCCL's. */
typedef enum lpDataType_t {
  LP_INT8 = 0,
  LP_UINT8 = 1,
  LP_INT32 = 2,
  LP_UINT32 = 3,
  LP_INT64 = 4,
  LP_UINT64 = 5,
  LP_FLOAT16 = 6,
  LP_FLOAT32 = 7,
  LP_FLOAT64 = 8,
  LP_BFLOAT16 = 9,
  LP_FLOAT8_E4M3 = 10,
  LP_FLOAT8_E5M2 = 11
} lpDataType_t;

typedef enum lpRedOp_t { LP_SUM = 0, LP_PROD = 1, LP_MAX = 2, LP_MIN = 3, LP_AVG = 4 } lpRedOp_t;

typedef enum lpBackend_t {
  LP_BACKEND_AUTO = 0, /* what LAMPPOST_BACKEND says (host, cuda, hip), else CUDA, then HIP, then host:
                          the first that has a device */
  LP_BACKEND_HOST = 1, /* ranks on CPU cores: no GPU needed, results bit-equal to a GPU's */
  LP_BACKEND_CUDA = 2,
  LP_BACKEND_HIP = 3
} lpBackend_t;

/* ---- Configuration --------------------------------------------------------------------------- */

#define LP_CONFIG_MAGIC 0x4c504346u /* "LPCF" */
#define LP_CONFIG_VERSION 1u
/* A negative number in a time field: use the default named there. */
#define LP_DEFAULT (-1)

/* Options of a communicator. Start from LP_CONFIG_INITIALIZER; a null pointer means all defaults.
 * `size`, `magic` and `version` let an old program run with a newer library and the reverse: a field
 * that lies beyond `size` has its default. All values but `device` must be equal on all ranks; init
 * compares them and names the field, the ranks and both values when they are not. */
typedef struct lpConfig {
  size_t size;
  uint32_t magic;
  uint32_t version;
  lpBackend_t backend;
  int32_t device;                /* device ordinal; LP_DEFAULT: the current context's device */
  int64_t timeout_ms;            /* per call; 0: waits never expire by themselves; default 60,000 */
  int64_t first_call_timeout_ms; /* first call only; default: timeout_ms if that was given, else
                                    300,000 (peers may still be loading or compiling) */
  int64_t setup_timeout_ms;      /* every step of init; default 60,000; 0 is refused */
  uint64_t slot_bytes;           /* largest message of one launch; 0: 2 MiB; at least 256 KiB, at
                                    most 1 GiB, a multiple of 4 KiB. Memory per rank is about
                                    3 * ranks * slot_bytes. Larger calls run as several launches */
  int32_t allow_shared_device;   /* 1: several ranks on one device (tests); default 0. On CUDA set
                                    CUDA_DEVICE_MAX_CONNECTIONS to at least that many, before the first
                                    CUDA call: kernels that share a hardware queue wait for each other */
  int32_t early_launch;          /* 1: kernels may start before their predecessor ends (PDL);
                                    default 0; no effect where devices cannot */
} lpConfig;

#define LP_CONFIG_INITIALIZER                                                               \
  {                                                                                         \
    sizeof(lpConfig), LP_CONFIG_MAGIC, LP_CONFIG_VERSION, LP_BACKEND_AUTO, LP_DEFAULT,      \
        LP_DEFAULT, LP_DEFAULT, LP_DEFAULT, 0, 0, 0                                         \
  }

/* ---- Communicators --------------------------------------------------------------------------- */

/* Makes `rank_count` ranks in this process: comms[r] is rank r. Blocks, at most setup_timeout_ms a
 * step. Local to the process (it stands for all ranks).
 * comms: array of rank_count handles, written only on success. devices: array of rank_count device
 * ordinals, or NULL: config->device for all ranks if that was given, else 0..rank_count-1 (ignored on
 * the host backend). config: may be NULL.
 * Errors: INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, RESOURCE_LIMIT, SYSTEM, DRIVER,
 * BOOTSTRAP, CORRUPT (a self-test between two ranks read wrong data). */
LAMPPOST_API lpResult_t lpCommInitAll(lpComm_t* comms, int rank_count, const int* devices,
                                      const lpConfig* config);

/* Waits until the communicator's last stream has passed its last call (bounded: by the timeout of
 * the call plus one second; memory that work or a peer may still touch is then parked, not freed),
 * and releases everything. Local: no other rank need call it, one thread may destroy its ranks in a
 * loop. NULL: success. The handle is gone whatever the result; a second destroy of it returns
 * INVALID_HANDLE. Other errors tell of something that happened before (CORRUPT: a guard word was
 * overwritten; TIMEOUT: memory was parked; DRIVER: the device could not be asked, memory was parked).
 * Graphs that hold calls on `comm` must not be launched after this. */
LAMPPOST_API lpResult_t lpCommDestroy(lpComm_t comm);

/* Ranks of the communicator, and this one's number. Local. */
LAMPPOST_API lpResult_t lpCommCount(lpComm_t comm, int* count);
LAMPPOST_API lpResult_t lpCommUserRank(lpComm_t comm, int* rank);
/* The backend in use (never AUTO). Local. */
LAMPPOST_API lpResult_t lpCommGetBackend(lpComm_t comm, lpBackend_t* backend);

/* ---- Collectives ----------------------------------------------------------------------------- */

/* out[i] = op over all ranks of in[i], for i in 0..count-1.
 * Collective (count, type, op, order of calls); enqueues on `stream`; may be captured.
 * in, out: device memory, `count` elements, element-aligned. in == out is allowed; any other
 *   overlap is refused. May be NULL if count is 0.
 * count: 0 to 2^48; equal on all ranks (0 exchanges headers only, so that a rank with another
 *   count is found). Large counts run as several launches.
 * type: LP_BFLOAT16, LP_FLOAT16, LP_FLOAT32. op: LP_SUM. Others: NOT_SUPPORTED in this version.
 * stream: the vendor's stream on GPUs (NULL: its default stream); on the host backend an
 *   lpStream_t, NULL: the communicator's own stream.
 *   Calls run in the order they are made, whatever their streams: a call on another stream than the
 *   last one's waits for it on the device, and within one capture becomes dependent on it. Nothing
 *   orders a graph's replay with other calls on the communicator: that is the caller's part (two at
 *   once end as LP_ERROR_CORRUPT). A stream may be destroyed any time after the call.
 * Errors: INVALID_ARGUMENT, INVALID_HANDLE, NOT_SUPPORTED, DRIVER, and any sticky error. */
LAMPPOST_API lpResult_t lpAllReduce(const void* in, void* out, size_t count, lpDataType_t type,
                                    lpRedOp_t op, lpComm_t comm, void* stream);

#define LP_ALL_REDUCE_RMS_NORM_MAGIC 0x4c50524eu /* "LPRN" */
#define LP_ALL_REDUCE_RMS_NORM_VERSION 1u

/* Arguments of lpAllReduceRMSNorm. Start from LP_ALL_REDUCE_RMS_NORM_INITIALIZER.
 *
 * For each row t and column c, in fp32, with one rounding where `round` stands:
 *   s[t,c] = round(+0.0f + in_0[t,c] + ... + in_N-1[t,c])        -> all_reduce_out
 *   r[t,c] = residual_in ? round(s[t,c] + residual_in[t,c]) : s  -> residual_out
 *   q[t]   = rsqrt(sum_c r[t,c]^2 * (1 / hidden) + epsilon)
 *   out[t,c] = round((r[t,c] * q[t]) * (weight_bias + weight[c]))
 * The sum of squares is one fixed tree: a leaf is 8 consecutive columns, summed in order with fma;
 * leaves combine pairwise at distance 1, 2, 4, ... It depends on `hidden` alone.
 *
 * Error of `out` against exact arithmetic on r, to first order in u = 2^-24: all squares are
 * positive, so a leaf's 8 fma and the tree's log2(hidden / 8) additions give the sum of squares a
 * relative error of at most (8 + ceil(log2(ceil(hidden / 8)))) u; the two roundings of 1 / hidden
 * and of the product add 2 u, the addition of epsilon 1 u. The square root halves that; rsqrt itself
 * adds 2 u (on the host a rounded square root and a rounded quotient; 4 u where hardware
 * approximates); the product r * q, the sum weight_bias + weight and their product add 3 u. So
 *   |out - exact| <= ((11 + log2(hidden / 8)) / 2 + 7) u |exact|  + half an ulp of the type
 * which is at most 20 u |exact| + half an ulp for every hidden up to 65,536.
 *
 * Aliasing (equal means same pointer):
 *   out == in               allowed
 *   residual_out == residual_in   allowed
 *   every other pair of distinct arguments, and every partial overlap: refused */
typedef struct lpAllReduceRMSNormArgs {
  size_t size;
  uint32_t magic;
  uint32_t version;
  const void* in;           /* [tokens, hidden], this rank's addend */
  void* out;                /* [tokens, hidden], normalised */
  const void* residual_in;  /* [tokens, hidden] or NULL: no residual; equal on all ranks for equal
                               outputs (Lamppost does not check its contents) */
  void* residual_out;       /* [tokens, hidden] or NULL: not wanted */
  void* all_reduce_out;     /* [tokens, hidden] or NULL: not wanted */
  const void* weight;       /* [hidden], type weight_type */
  lpDataType_t type;        /* of all tensors but weight: LP_BFLOAT16, LP_FLOAT16, LP_FLOAT32 */
  lpDataType_t weight_type; /* `type` or LP_FLOAT32 */
  int64_t tokens;           /* rows, 0 to 2^40 */
  int64_t hidden;           /* columns, 1 to LP_MAX_HIDDEN; rows are contiguous */
  float epsilon;            /* finite, 0 or more */
  float weight_bias;        /* 0; 1 for Gemma's (1 + weight) */
} lpAllReduceRMSNormArgs;

#define LP_ALL_REDUCE_RMS_NORM_INITIALIZER                                                     \
  {                                                                                            \
    sizeof(lpAllReduceRMSNormArgs), LP_ALL_REDUCE_RMS_NORM_MAGIC,                              \
        LP_ALL_REDUCE_RMS_NORM_VERSION, NULL, NULL, NULL, NULL, NULL, NULL, LP_BFLOAT16,       \
        LP_BFLOAT16, 0, 0, 1e-6f, 0.0f                                                         \
  }

/* All-reduce + residual add + RMSNorm in one kernel; see the struct above for the arithmetic.
 * Collective (tokens, hidden, type, weight_type, epsilon, weight_bias, whether residual_in is NULL,
 * order of calls); enqueues on `stream`; may be captured. `args` is read before
 * the call returns. Errors and stream: as lpAllReduce. */
LAMPPOST_API lpResult_t lpAllReduceRMSNorm(const lpAllReduceRMSNormArgs* args, lpComm_t comm,
                                           void* stream);

/* ---- Failure --------------------------------------------------------------------------------- */

/* *error = the communicator's sticky error, LP_SUCCESS while there is none. Local, never blocks, no
 * device synchronisation: it reads host memory that the kernels write. */
LAMPPOST_API lpResult_t lpCommGetAsyncError(lpComm_t comm, lpResult_t* error);

/* Sets the time that a call may wait for a peer, for calls in flight too (they look within about a
 * millisecond). 0: waits never expire by themselves (an abort still ends them). Local: ranks may
 * differ. Replaces first_call_timeout_ms as well. Errors: INVALID_ARGUMENT (negative). */
LAMPPOST_API lpResult_t lpCommSetTimeout(lpComm_t comm, int64_t timeout_ms);

typedef enum lpHealthState_t {
  LP_HEALTH_OK = 0,      /* nothing to report */
  LP_HEALTH_WAITING = 1, /* a call has waited for over a second; not failed (yet) */
  LP_HEALTH_FAILED = 2   /* the record below is the first failure on this rank */
} lpHealthState_t;

typedef enum lpPhase_t {
  LP_PHASE_NONE = 0,
  LP_PHASE_START = 1,   /* reading the control words */
  LP_PHASE_PUBLISH = 2, /* pushing to peers */
  LP_PHASE_HEADER = 3,  /* waiting for a peer's header */
  LP_PHASE_DATA = 4,    /* waiting for a peer's data */
  LP_PHASE_ARRIVE = 5   /* counting the blocks out */
} lpPhase_t;

typedef enum lpPeerState_t {
  LP_PEER_UNKNOWN = 0,
  LP_PEER_NEVER_LAUNCHED = 1, /* has made no call yet, or not this one */
  LP_PEER_IN_CALL = 2,        /* its kernel of `call` has started and not finished */
  LP_PEER_FINISHED = 3        /* its kernel of `call` has finished; it started no later one */
} lpPeerState_t;

/* What a peer's own descriptor said when this rank last looked (a snapshot: it may be older than
 * the rest). */
typedef struct lpPeerHealth {
  lpPeerState_t state;
  uint32_t call;      /* its newest call */
  uint32_t operation; /* hash of its descriptor: equal hashes are equal calls */
  uint32_t extent;    /* tokens of a fused call, elements of a plain one */
  uint32_t columns;   /* hidden size; elements of a row for a plain call */
} lpPeerHealth;

#define LP_HEALTH_MAGIC 0x4c50484cu /* "LPHL" */
#define LP_HEALTH_VERSION 1u

/* One rank's health. A "call" is one launch, counted on each communicator: 0 is the self-test that
 * ends its creation, 1 the first call; a large user call makes several. Times are milliseconds. */
typedef struct lpHealth {
  size_t size; /* set size, magic and version before the call: LP_HEALTH_INITIALIZER */
  uint32_t magic;
  uint32_t version;
  lpHealthState_t state;
  lpResult_t error; /* LP_SUCCESS unless FAILED */
  int32_t rank;
  int32_t rank_count;
  uint32_t call;
  lpPhase_t phase;
  int32_t waited_for; /* rank, -1: nobody */
  int32_t abort_source; /* rank that failed first, -1: this one (or nobody) */
  uint32_t abort_call;  /* the call in which it failed */
  uint32_t element;   /* 8-element fragment within the call */
  uint32_t expected;  /* word that was waited for or expected */
  uint32_t seen;      /* word that was there */
  uint32_t block;
  uint32_t thread;
  double waited_ms;
  double timeout_ms; /* in force now; 0: none */
  uint64_t missing[2]; /* bit r: some lane of this rank found rank r missing */
  lpPeerHealth peers[LP_MAX_RANKS];
} lpHealth;

#define LP_HEALTH_INITIALIZER                                                                \
  {                                                                                          \
    sizeof(lpHealth), LP_HEALTH_MAGIC, LP_HEALTH_VERSION, LP_HEALTH_OK, LP_SUCCESS, 0, 0, 0, \
        LP_PHASE_NONE, -1, -1, 0, 0, 0, 0, 0, 0, 0.0, 0.0, {0, 0},                           \
        {{LP_PEER_UNKNOWN, 0, 0, 0, 0}}                                                      \
  }

/* Fills *health. Local, never blocks, no device synchronisation. */
LAMPPOST_API lpResult_t lpCommGetHealth(lpComm_t comm, lpHealth* health);
/* Writes the health as a paragraph for people into text (at most text_bytes, always terminated).
 * Returns the bytes the whole text needs, the terminator included. Local. */
LAMPPOST_API size_t lpHealthToString(const lpHealth* health, char* text, size_t text_bytes);

/* ---- Streams and graphs of the host backend -------------------------------------------------- */

/* An ordered queue with a thread of its own. Local. On GPUs use the vendor's streams: a GPU
 * communicator gets NOT_SUPPORTED here. Streams and graphs may outlive the communicator. */
LAMPPOST_API lpResult_t lpStreamCreate(lpComm_t comm, lpStream_t* stream);
/* Blocks until all that was enqueued has run; bounded as the enqueued calls are. The result is about
 * the stream (LP_SUCCESS even if a collective failed: ask lpCommGetAsyncError). NULL comm stream:
 * use lpCommSynchronize. Refused in capture. */
LAMPPOST_API lpResult_t lpStreamSynchronize(lpStream_t stream);
/* Blocks until all enqueued work has run, then frees. NULL: success. */
LAMPPOST_API lpResult_t lpStreamDestroy(lpStream_t stream);
/* As lpStreamSynchronize for the communicator's own stream (host) or default stream (GPUs). */
LAMPPOST_API lpResult_t lpCommSynchronize(lpComm_t comm);

/* Capture: calls enqueued between Begin and End are recorded, not run. One stream is one capture
 * (no forks to other streams). Local. */
LAMPPOST_API lpResult_t lpStreamBeginCapture(lpStream_t stream);
LAMPPOST_API lpResult_t lpStreamEndCapture(lpStream_t stream, lpGraph_t* graph);
/* Enqueues all of the graph's calls, in order. Any number of times, on any host stream. */
LAMPPOST_API lpResult_t lpGraphLaunch(lpGraph_t graph, lpStream_t stream);
/* The graph must not be in a stream's queue any more. NULL: success. */
LAMPPOST_API lpResult_t lpGraphDestroy(lpGraph_t graph);

#ifdef __cplusplus
}
#endif
#endif /* LAMPPOST_LAMPPOST_H_ */
