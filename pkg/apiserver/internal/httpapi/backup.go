package httpapi

import (
	"log/slog"
	"net/http"
)

// BackupPath is the path of backup.
const BackupPath = "/debug/store/backup"

// backup responds with a backup of the store. After an error the body is cut, which its reader detects, because a backup
// ends with a checksum.
func (s *Handler) backup(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != BackupPath || s.config.Backup == nil {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet {
		http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := s.config.Backup(r.Context(), w); err != nil {
		slog.Warn("write backup", "err", err)
	}
}
