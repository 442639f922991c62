package kernhesreceiver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
)

// TestMain runs a hostile process if it is asked for one, else the tests.
func TestMain(m *testing.M) {
	if kind := hostileKinds[os.Getenv("KERNHES_HOSTILE_KIND")]; kind != nil {
		beHostile(kind)
	}
	goleak.VerifyTestMain(m)
}

// A hostility is a process that speaks to a collector until it is killed.
type hostility struct {
	socket, control string
	sessions        int
}

// beHostile does what a kind does, again and again, in as many goroutines as the kind asks for.
func beHostile(kind *hostileKind) {
	h := &hostility{socket: os.Getenv("KERNHES_HOSTILE_SOCKET"), control: os.Getenv("KERNHES_HOSTILE_CONTROL")}
	h.sessions, _ = strconv.Atoi(os.Getenv("KERNHES_HOSTILE_SESSIONS"))
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) // what the collector does is measured, not what the machine does
	var all sync.WaitGroup
	for i := range max(1, h.sessions*kind.each) {
		all.Go(func() {
			for {
				kind.do(h, i)
				time.Sleep(10 * time.Millisecond) // what is refused comes again
			}
		})
	}
	fmt.Println("ready")
	all.Wait()
}

// A hostileKind is what a hostile engine does, over and over: do returns when it has to begin anew.
type hostileKind struct {
	each int // goroutines a session; 0: one in all
	do   func(h *hostility, i int)
}

var hostileKinds = map[string]*hostileKind{
	"many sessions":        {1, func(h *hostility, i int) { h.engine(i, hold) }},
	"many connections":     {2, func(h *hostility, _ int) { h.raw(nil) }},
	"half a HELLO":         {2, func(h *hostility, _ int) { h.raw(halfHello) }},
	"garbage":              {1, func(h *hostility, _ int) { h.raw([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")) }},
	"vanishing":            {1, func(h *hostility, i int) { h.engine(i, func(*shimscript.Script, func() bool) {}) }},
	"series":               {1, func(h *hostility, i int) { h.engine(i, manySeries) }},
	"long texts":           {1, func(h *hostility, i int) { h.engine(i, longTexts) }},
	"a rank a step":        {1, func(h *hostility, i int) { h.engine(i, manyRanks) }},
	"a costly manifest":    {1, func(h *hostility, i int) { h.engine(i, costlyManifest) }},
	"bad manifests":        {1, func(h *hostility, i int) { h.engine(i, badManifests) }},
	"kernels in reverse":   {1, func(h *hostility, i int) { h.engine(i, reversed) }},
	"nothing ever settles": {1, func(h *hostility, i int) { h.engine(i, neverSettled) }},
	"launches of 2^62":     {1, func(h *hostility, i int) { h.engine(i, fromTheFuture) }},
	"another's BYE":        {1, func(h *hostility, i int) { h.foreignBye(i) }},
	"web requests":         {1, func(h *hostility, _ int) { h.web() }},
}

var halfHello = wire.AppendFrame(nil, wire.KindHello, 0, 0, make([]byte, wire.MaxHello))[:wire.MaxHello-100]

// raw connects, says something, and waits until it is thrown out.
func (h *hostility) raw(say []byte) {
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write(say)
	_, _ = c.Read(make([]byte, 1))
}

// engine is a session that do speaks for, until the collector ends the connection.
func (h *hostility) engine(i int, do func(s *shimscript.Script, alive func() bool)) {
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		return
	}
	defer c.Close()
	ended := make(chan struct{})
	go func() { // whatever it answers
		defer close(ended)
		for b := make([]byte, 4096); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}()
	alive := func() bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	}
	_, _ = c.Write(hello(wire.Version, rand.Uint64(), "run", fmt.Sprint("hostile", i), "rank", strconv.Itoa(i), "host", "forged", "model", strings.Repeat("m", 4000)))
	s := &shimscript.Script{Out: func(f wire.Frame) {
		_, _ = c.Write(wire.AppendFrame(nil, f.Kind, f.Flags, f.Number, f.Body))
	}}
	do(s, alive)
}

func hold(_ *shimscript.Script, alive func() bool) {
	for alive() {
		time.Sleep(10 * time.Millisecond)
	}
}

// manySeries has steps of new programs on all devices.
func manySeries(s *shimscript.Script, alive func() bool) {
	for n := uint64(1); alive(); n++ {
		at := n * 1000
		s.Push(at, fmt.Sprintf("step:program%d tokens=%d", n, n%30000))
		s.Launch(at+1, uint32(n))
		s.Pop(at + 2)
		s.OnDevice(uint16(n%64), uint32(n), at+10, at+20)
		s.Flushed(at + 100)
	}
}

// longTexts has texts of the greatest length in all that is a text, and new ones all the time.
func longTexts(s *shimscript.Script, alive func() bool) {
	for n := uint64(1); alive(); n++ {
		at := n * 1000
		long := fmt.Sprint(n, strings.Repeat("\u202e<b>\n", 400))
		s.Frame(wire.KindInfo, wire.AppendPair(wire.AppendPair(nil, "model", long), "engine_version", long))
		s.Text(uint32(n), long)
		s.Push(at, "step:"+long+" tokens=1")
		s.Push(at+1, long)
		s.Launch(at+1, uint32(n))
		s.Pop(at + 2)
		s.Pop(at + 3)
		s.Named(uint32(n), uint32(n), shimscript.Us(at+10), shimscript.Us(at+20))
		s.Flushed(at + 100)
	}
}

// manyRanks claims another rank with each step.
func manyRanks(s *shimscript.Script, alive func() bool) {
	for n := uint64(1); alive(); n++ {
		at := n * 1000
		s.Push(at, fmt.Sprintf("step:decode rank=%d,tokens=1", n))
		s.Launch(at+1, uint32(n))
		s.Pop(at + 2)
		s.Ran(uint32(n), at+10, at+20)
		s.Flushed(at + 100)
	}
}

// costlyManifest has 4,096 expressions that are slow to fail, and labels of 2,000 bytes.
func costlyManifest(s *shimscript.Script, alive func() bool) {
	rules := make([]string, 4096)
	for i := range rules {
		rules[i] = fmt.Sprintf(`{"pattern": "(x+x+)+y%d"}`, i)
	}
	s.Frame(wire.KindManifest, []byte(`{"kernhes_manifest": 1, "calls": [`+strings.Join(rules, ",")+`]}`))
	for n := uint64(1); alive(); n++ {
		at := n * 1000
		s.Push(at, "step:decode tokens=1")
		s.Push(at+1, strings.Repeat("x", 2000)+fmt.Sprint(n))
		s.Launch(at+1, uint32(n))
		s.Pop(at + 2)
		s.Pop(at + 3)
		s.Ran(uint32(n), at+10, at+20)
		s.Flushed(at + 100)
	}
}

func badManifests(s *shimscript.Script, alive func() bool) {
	for alive() {
		s.Frame(wire.KindManifest, []byte(`{"kernhes_manifest": 7}`))
	}
}

// reversed sends frames of 16 MB, with kernels in the reverse order of their launches.
func reversed(s *shimscript.Script, alive func() bool) {
	for n := uint64(0); alive(); n++ {
		at := n * 1_000_000
		s.Push(at, "step:decode tokens=1")
		for i := range uint32(2000) {
			s.Launch(at+uint64(i), uint32(n)*2000+i)
		}
		body := make([]byte, 0, wire.MaxBody)
		for i := range uint32(wire.MaxBody / 64) {
			k := shimscript.KernelOn(0, uint32(n)*2000+1999-i%2000, shimscript.Us(at+100+uint64(i%100_000)), shimscript.Us(at+101+uint64(i%100_000)))
			body = append(body, k...)
		}
		s.Frame(wire.KindKernels, body)
		s.Pop(at + 100_100)
		s.Flushed(at + 200_000)
	}
}

// neverSettled opens steps and launches, and names, and brings kernels that belong to none.
func neverSettled(s *shimscript.Script, alive func() bool) {
	for n := uint64(1); alive(); n++ {
		s.Push(n, "step:decode "+strings.Repeat("x", 3000))
		s.Launch(n, uint32(n))
		s.Text(uint32(n), fmt.Sprint(n, strings.Repeat("k", 1000)))
		s.Node(n, n<<32|n)
		s.Ran(uint32(n)|1<<31, n, n+500)
	}
}

func fromTheFuture(s *shimscript.Script, alive func() bool) {
	s.Launch((1<<62-shimscript.Epoch)/1000, 1)
	for n := uint64(1); alive(); n++ {
		s.Launch(n*100, uint32(n)+1)
		s.Ran(uint32(n)+1, n*100+10, n*100+20)
		s.Flushed(n*100 + 50)
	}
}

// foreignBye connects as each session that the status shows, and says BYE for it.
func (h *hostility) foreignBye(int) {
	answer, err := http.Get("http://" + h.control + "/status?format=json")
	if err != nil {
		return
	}
	b := make([]byte, 1<<20)
	n, _ := answer.Body.Read(b)
	_ = answer.Body.Close()
	for _, part := range strings.Split(string(b[:n]), `"session":"`)[1:] {
		id, err := strconv.ParseUint(part[:min(16, len(part))], 16, 64)
		if err != nil {
			continue
		}
		c, err := net.Dial("unix", h.socket)
		if err != nil {
			return
		}
		_, _ = c.Write(hello(wire.Version, id))
		_, _ = c.Write(wire.AppendFrame(nil, wire.KindBye, 0, 1<<40, make([]byte, 24)))
		_, _ = c.Read(make([]byte, 64))
		_ = c.Close()
	}
}

// web asks as a page of another site would, and as one whose name leads here.
func (h *hostility) web() {
	for _, path := range []string{"/yield?seconds=86400", "/yield?rank=7%", "/trace?steps=1"} {
		r, err := http.NewRequest(http.MethodPost, "http://"+h.control+path, nil)
		if err != nil {
			return
		}
		r.Header.Set("Origin", "http://evil.example")
		if rand.IntN(2) == 0 {
			r.Host = "evil.example"
			r.Header.Set("Origin", "http://evil.example")
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
	}
}
