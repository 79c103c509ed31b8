//! Shared informers for Kubernetes: reflector, delta FIFO, indexed store, handlers, work queues.
