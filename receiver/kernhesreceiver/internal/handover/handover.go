// Package handover turns what a component leaves when it is shut down into what the next one on its endpoint begins with.
// When the Collector reloads its configuration, it makes new components in the same process.
package handover

import (
	"net"
	"slices"
	"sync"
)

// maxLeft bounds the endpoints whose components are shut down and did not come back.
const maxLeft = 16

// A Registry keeps what was left for each endpoint. The zero Registry is empty.
type Registry[T any] struct {
	mu  sync.Mutex
	all []left[T] // oldest first
}

type left[T any] struct {
	endpoint string
	what     T
}

// Leave keeps what for the next component of an endpoint.
func (r *Registry[T]) Leave(endpoint net.Addr, what T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, left[T]{nameOf(endpoint), what})
	r.all = slices.Delete(r.all, 0, max(0, len(r.all)-maxLeft))
}

// Take gives what was left first for an endpoint; false: nothing is.
func (r *Registry[T]) Take(endpoint net.Addr) (what T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.all, func(l left[T]) bool { return l.endpoint == nameOf(endpoint) })
	if i < 0 {
		return what, false
	}
	what = r.all[i].what
	r.all = slices.Delete(r.all, i, i+1)
	return what, true
}

func nameOf(endpoint net.Addr) string { return endpoint.Network() + " " + endpoint.String() }
