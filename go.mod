module github.com/yekbar-go/yekbar

go 1.25.0
