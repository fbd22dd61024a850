module brokerscope/e2e/newest

go 1.26.0

tool brokerscope/e2e/clients/franz

require (
	brokerscope/e2e/clients v0.0.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go v1.22.2 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.0 // indirect
)

replace brokerscope/e2e/clients => ../go
