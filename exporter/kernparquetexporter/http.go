package kernparquetexporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/confighttp"

	"github.com/kernhes/kernhes/exporter/kernparquetexporter/internal/archive"
	"github.com/kernhes/kernhes/internal/webguard"
)

// A server answers POST /flush and GET /status.
type server struct {
	http    *http.Server
	serving sync.WaitGroup
}

// A flushed is the answer to POST /flush: with status 200 all that was taken before is in closed files.
type flushed struct {
	Files []archive.Closed `json:"files"`
	Error string           `json:"error,omitempty"`
}

// serve listens, and answers until shutdown.
func serve(ctx context.Context, config *confighttp.ServerConfig, hosts []string, host component.Host, set component.TelemetrySettings, a archive.Store) (*server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /flush", func(w http.ResponseWriter, r *http.Request) {
		files, err := a.Flush(r.Context())
		answer := flushed{Files: files}
		status := http.StatusOK
		if err != nil {
			answer.Error, status = err.Error(), http.StatusServiceUnavailable
		}
		write(w, status, answer)
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, a.Status()) })

	s := &server{}
	var err error
	if s.http, err = config.ToServer(ctx, host.GetExtensions(), set, webguard.Handler(mux, append(webguard.Endpoint(config.NetAddr.Endpoint), hosts...))); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	listener, err := config.ToListener(ctx)
	if err != nil {
		return nil, fmt.Errorf("http::endpoint: %w", err)
	}
	s.serving.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
		}
	})
	return s, nil
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v) // who asked has gone
}

// shutdown waits for answers that are under way, until ctx ends.
func (s *server) shutdown(ctx context.Context) error {
	if s == nil {
		return nil
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.serving.Wait()
	return err
}
