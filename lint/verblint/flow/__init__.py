"""How tokens flow through a model: graphs, concurrency, loops, waits, visits and caught errors."""
