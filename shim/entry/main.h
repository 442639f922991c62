// What the two entries share.
#ifndef KERNHES_MAIN_H
#define KERNHES_MAIN_H

// main_watch_forks has a child process disabled; later calls do nothing.
void main_watch_forks(void);

#endif
