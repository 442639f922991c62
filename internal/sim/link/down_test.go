package link

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
)

// A link that is down or closed makes no use of a connection, and leaves the link to others.
func TestAConnectionThatComesTooLateIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for what, end := range map[string]func(*Link){"down": func(l *Link) { l.Down(true) }, "closed": (*Link).Close} {
		l, _ := records(Settings{Endpoint: path, Bound: 1 << 20}, 1)
		l.Lock()
		end(l)
		l.Unlock()
		if err := l.connection(t.Context()); !errors.Is(err, errCut) {
			t.Errorf("%s: %v", what, err)
		}
		l.Lock()
		if l.Connects != 0 || l.Sent != 0 {
			t.Errorf("%s: %d connections, %d bytes", what, l.Connects, l.Sent)
		}
		l.Unlock()
	}
}
