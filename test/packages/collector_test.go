//go:build packages

package packages_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

const (
	page    = "http://127.0.0.1:8988/status?format=json"
	metrics = "http://127.0.0.1:9464/metrics"
	socket  = "/run/kernhes/kernhes.sock"
	archive = "/var/lib/kernhes/archive"
)

// expected is what a recording has, by the program that made it.
type expected struct {
	Kernels int `json:"kernels"`
	Steps   int `json:"steps_complete"`
}

func solo(t testing.TB) (e expected) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/recordings/solo.rank0.expect.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &e))
	require.Positive(t, e.Kernels)
	require.Positive(t, e.Steps)
	return e
}

// A play is one run of the recording of one GPU, through the shim of the package, by a user.
type play struct {
	t       testing.TB
	command *exec.Cmd
	out     bytes.Buffer
	ended   chan struct{}
}

// play begins one; settings are variables of the shim.
func (m *machine) play(user, run, speed string, settings ...string) *play {
	m.t.Helper()
	args := append([]string{"env", "KERNHES_RUN=" + run, "KERNHES_LIB=/usr/lib/kernhes/libkernhes.so"}, settings...)
	args = append(args, "/mnt/bin/kernhes-play", "--quiet", "--speed", speed, "/mnt/testdata/recordings/solo.rank0.krec.zst")
	p := &play{t: m.t, command: m.command(user, args...), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = &p.out, &p.out
	require.NoError(m.t, p.command.Start())
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	return p
}

// over reports whether it has ended.
func (p *play) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// end waits until it has ended with a status: 0 if all was acknowledged.
func (p *play) end(status int) {
	p.t.Helper()
	<-p.ended
	require.Equal(p.t, status, p.command.ProcessState.ExitCode(), p.out.String())
}

// get answers with the body, or "" while nobody answers.
func get(url string) string {
	answer, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// sum adds up the samples of a metric that have all the labels, as NAME="VALUE".
func sum(text, metric string, labels ...string) (total float64) {
lines:
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, metric+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(line, l) {
				continue lines
			}
		}
		value := line[strings.LastIndex(line, "}")+1:]
		n, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
		if err == nil {
			total += n
		}
	}
	return total
}

// steps are the complete steps of a run by the Prometheus endpoint.
func steps(run string) int { return int(sum(get(metrics), "kern_steps_total", `kern_run="`+run+`"`)) }

// live are the complete steps of a run's rank that the status page shows.
func live(run string) (n int) {
	var answer struct {
		Sessions []struct {
			Run   string
			Ranks []struct{ Steps int }
		}
	}
	_ = json.Unmarshal([]byte(get(page)), &answer) // nobody answers while the collector is down
	for _, s := range answer.Sessions {
		for _, r := range s.Ranks {
			if s.Run == run {
				n += r.Steps
			}
		}
	}
	return n
}

// A row is what tells a kernel of one GPU in the archive from all others.
type row struct {
	Run     string `parquet:"run"`
	Session string `parquet:"session"`
	Start   int64  `parquet:"start_ns"`
	Symbol  string `parquet:"symbol"`
}

// kernels are the rows of a run in the archive: how many, and how many that differ. It waits until the archive has so many
// that differ: acknowledged chunks may be in its queue.
func (m *machine) kernels(run string, want int) (rows, distinct int) {
	m.t.Helper()
	for until := time.Now().Add(patience); distinct < want && time.Now().Before(until); time.Sleep(300 * time.Millisecond) {
		m.must("kernhes", "flush")
		rows, distinct = m.closed(run)
	}
	return rows, distinct
}

// closed are the rows of a run in closed files.
func (m *machine) closed(run string) (rows, distinct int) {
	m.t.Helper()
	files, err := filepath.Glob(m.path(archive + "/k-*.parquet"))
	require.NoError(m.t, err)
	type key struct {
		session, symbol string
		start           int64
	}
	seen := map[key]bool{}
	for _, file := range files {
		all, err := parquet.ReadFile[row](file)
		require.NoError(m.t, err)
		for _, r := range all {
			if r.Run != run {
				continue
			}
			k := key{r.Session, r.Symbol, r.Start}
			rows++
			seen[k] = true
		}
	}
	return rows, len(seen)
}

// pid is the collector's process id as systemd knows it.
func (m *machine) pid() string {
	m.t.Helper()
	return m.must("systemctl", "show", "--property=MainPID", "--value", "kernhes.service")
}

// ready waits until the collector answers and listens.
func (m *machine) ready() {
	m.t.Helper()
	eventually(m.t, "the collector is ready", func() bool {
		_, err := os.Stat(m.path(socket))
		return err == nil && get(page) != "" && get("http://127.0.0.1:13133") != ""
	})
}
