// The shim as NVTX's injection library.
#ifndef KERNHES_NVTX_H
#define KERNHES_NVTX_H

// nvtx_live: ranges go to the ring from here on. nvtx_off: they go nowhere.
void nvtx_live(void);
void nvtx_off(void);

// nvtx_forked: the calling thread is a child's only one.
void nvtx_forked(void);

#endif
