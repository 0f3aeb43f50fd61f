// Threading Building Blocks: a sum, a sort, a pipeline, a flow graph and a concurrent map. Needs libtbb-dev.
#include <tbb/tbb.h>

#include <algorithm>
#include <cstdio>
#include <vector>

int main()
{
	tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 3);
	std::vector<int> values(2000);
	tbb::parallel_for(tbb::blocked_range<int>(0, 2000, 100), [&](const auto &range) {
		for (int i = range.begin(); i != range.end(); i++)
			values[i] = (i * 7919) % 2003;
	});
	long sum = tbb::parallel_reduce(
		tbb::blocked_range<int>(0, 2000, 100), 0L,
		[&](const auto &range, long sum) {
			for (int i = range.begin(); i != range.end(); i++)
				sum += values[i];
			return sum;
		},
		[](long a, long b) { return a + b; });
	tbb::parallel_sort(values.begin(), values.end());
	int next = 0;
	long piped = 0;
	tbb::parallel_pipeline(
		4, tbb::make_filter<void, int>(tbb::filter_mode::serial_in_order,
					       [&](tbb::flow_control &control) {
						       if (next == 20)
							       control.stop();
						       return next++;
					       }) &
			   tbb::make_filter<int, int>(tbb::filter_mode::parallel, [](int i) { return i * i; }) &
			   tbb::make_filter<int, void>(tbb::filter_mode::serial_in_order,
						       [&](int i) { piped = piped * 3 + i; }));
	tbb::flow::graph graph;
	tbb::concurrent_hash_map<int, int> seen;
	tbb::flow::function_node<int> node(graph, tbb::flow::unlimited, [&](int i) {
		tbb::concurrent_hash_map<int, int>::accessor place;
		seen.insert(place, i % 5);
		place->second += i;
	});
	for (int i = 0; i < 20; i++)
		node.try_put(i);
	graph.wait_for_all();
	int total = 0;
	for (auto &entry : seen)
		total += entry.second;
	std::printf("sum %ld, sorted %d, piped %ld, total %d\n", sum, std::is_sorted(values.begin(), values.end()), piped,
		    total);
}
