#include <pthread.h>
#include <semaphore.h>
extern pthread_rwlock_t written, read_and_written, still_written, still_read;
extern pthread_mutex_t used, still_held, recursive, checked;
extern pthread_cond_t waited_for;
extern pthread_barrier_t barrier;
extern pthread_spinlock_t spin, still_spun;
extern sem_t semaphore;
extern pthread_once_t once;
extern int handled;
void count(void);
