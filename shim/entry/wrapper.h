// The wrapper of launches and captures of graphs.
#ifndef KERNHES_WRAPPER_H
#define KERNHES_WRAPPER_H

// wrapper_stands: the library was preloaded, so calls of the process come to the wrapper.
void wrapper_stands(void);

#endif
