// Package webguard turns away requests that a page of another site can have a browser send to an endpoint on this host.
package webguard

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Handler answers as next does, but refuses:
//
//   - a Host that is a name other than localhost and those of hosts (403): a name of another site can be made to lead here, and
//     its pages then count as ours. An address cannot: who is asked by address is who has it;
//   - what a page of another origin has a browser send, where it would change something (403);
//   - a query that is malformed (400): what of it could be read may be less than what was asked.
func Handler(next http.Handler, hosts []string) http.Handler {
	protected := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !knownHost(r.Host, hosts) {
			refuse(w, http.StatusForbidden, fmt.Sprintf("host %q is not known here: want an address, localhost, or a name from the settings", cut(r.Host)))
			return
		}
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			refuse(w, http.StatusBadRequest, "query: "+cut(err.Error()))
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// knownHost reports whether a Host header names this host.
func knownHost(header string, hosts []string) bool {
	name := header
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = host
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// Endpoint is the name in host:port, for the hosts of Handler; none: it is an address, or empty.
func Endpoint(endpoint string) []string {
	if host, _, err := net.SplitHostPort(endpoint); err == nil && host != "" {
		return []string{host}
	}
	return nil
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Error string `json:"error"`
	}{why}) // who asked has gone
}

// cut bounds what a request says of itself in the answer.
func cut(s string) string { return s[:min(len(s), 100)] }
