package webguard

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	handler := Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), append(Endpoint("gpu07:8988"), "node.example.com"))
	check := func(want int, method, target, host string, headers ...string) {
		t.Helper()
		r := httptest.NewRequest(method, target, nil)
		r.Host = host
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, "%s %s of %s", method, target, host)
	}
	for _, host := range []string{"localhost", "localhost:8988", "LocalHost.", "127.0.0.1:8988", "[::1]:8988", "10.0.0.7", "gpu07:8988", "GPU07", "node.example.com:80"} {
		check(200, "GET", "/status", host)
		check(200, "POST", "/yield?rank=7", host)
	}
	for _, host := range []string{"evil.example", "evil.example:8988", "localhost.evil.example", "127.0.0.1.evil.example:8988", "", "gpu07.evil.example", "gpu0"} {
		check(403, "GET", "/status", host)
		check(403, "POST", "/yield", host)
	}
	check(403, "POST", "/yield", "localhost", "Sec-Fetch-Site", "cross-site")
	check(403, "POST", "/yield", "localhost:8988", "Origin", "http://evil.example")
	check(403, "DELETE", "/yield", "localhost:8988", "Origin", "null")
	check(200, "POST", "/yield", "localhost:8988", "Origin", "http://localhost:8988")
	for _, query := range []string{"?rank=7%", "?rank=%zz", "?rank=7;seconds=9"} {
		check(400, "GET", "/rank"+query, "localhost")
		check(400, "POST", "/yield"+query, "localhost")
	}
	assert.Empty(t, Endpoint(":8988"))
}
