// What differs between versions of CUPTI: one build of the mock is one version, MOCK_CUPTI = 12080, 12090, 130000, ….
// Symbols and record sizes are those of the reference: a symbol that a version lacks is not in that build at all.
#ifndef KERNHES_MOCK_VERSION_H
#define KERNHES_MOCK_VERSION_H

#ifndef MOCK_CUPTI
#define MOCK_CUPTI 130001
#endif

// cuptiGetVersion: a small number up to CUDA 12, xxyyzz from 13.0.
#if MOCK_CUPTI == 12080
#define MOCK_API 26
#elif MOCK_CUPTI == 12090
#define MOCK_API 28
#else
#define MOCK_API MOCK_CUPTI
#endif

#define MOCK_NULL_BUFFER (MOCK_API >= 27)     // a client may return no buffer; before, CUPTI crashed
#define MOCK_SUBSCRIBE_V2 (MOCK_CUPTI >= 130000)
#define MOCK_V2_PREVIEW (MOCK_CUPTI >= 130200) // register, enable, attributes; struct sizes
#define MOCK_V2 (MOCK_CUPTI >= 130300)         // records, drops, timestamps
#define MOCK_HES_BEFORE_INIT (MOCK_CUPTI >= 130300)
#define MOCK_SUBSCRIBER_PARAMS (MOCK_CUPTI >= 130200 ? 40 : 32)

#define MOCK_KERNEL_SIZE \
  (MOCK_CUPTI >= 130400 ? 248 : MOCK_CUPTI >= 130300 ? 232 : MOCK_CUPTI >= 130100 ? 224 : MOCK_CUPTI >= 130000 ? 216 : 208)
#define MOCK_MEMCPY_SIZE (MOCK_CUPTI >= 130400 ? 112 : 96)
#define MOCK_MEMSET_SIZE (MOCK_CUPTI >= 130400 ? 104 : 88)
#define MOCK_PEER_SIZE 96
#define MOCK_UNKNOWN_SIZE 64
#define MOCK_LARGEST 248

#define KIND_MEMCPY 1
#define KIND_MEMSET 2
#define KIND_SERIAL_KERNEL 3
#define KIND_KERNEL 10
#define KIND_PEER 22
#define KIND_EXTERNAL_CORRELATION 39
#define KIND_GRAPH_TRACE 51
#define KIND_UNKNOWN 77 // of no CUPTI: what a later version might bring
#define KINDS 128

// mock_size is the bytes of one record of this version; 0 for a kind that the mock does not make.
static inline unsigned mock_size(unsigned kind) {
  switch (kind) {
  case KIND_KERNEL: return MOCK_KERNEL_SIZE;
  case KIND_MEMCPY: return MOCK_MEMCPY_SIZE;
  case KIND_MEMSET: return MOCK_MEMSET_SIZE;
  case KIND_PEER: return MOCK_PEER_SIZE;
  case KIND_UNKNOWN: return MOCK_UNKNOWN_SIZE;
  default: return 0;
  }
}

#endif
