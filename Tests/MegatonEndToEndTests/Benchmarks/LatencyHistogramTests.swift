import Testing

@testable import MegatonBenchmarks

/// The percentiles that benchmarks report.
@Suite struct LatencyHistogramTests {
    @Test func percentilesAreRightToSixParts() throws {
        var (one, other) = (LatencyHistogram(), LatencyHistogram())
        for microseconds in 1...1000 {
            if microseconds % 3 == 0 { one.add(microseconds) } else { other.add(microseconds) }
        }
        one.merge(other)
        #expect(one.count == 1000 && one.sum == 500_500)
        for (part, milliseconds) in [(0.5, 0.5), (0.9, 0.9), (0.99, 0.99)] {
            let found = try #require(one.percentile(part))
            #expect(found >= milliseconds && found <= milliseconds * 1.06, "\(part): \(found)")
        }
    }

    @Test func anEmptyHistogramHasNoPercentile() {
        #expect(LatencyHistogram().percentile(0.5) == nil)
    }

    @Test func pretendedWorkIsSpreadAroundItsMean() {
        let work = SimulatedWork(mean: 20)
        let all = (0..<20_000).map { _ in work.next() }
        let mean = all.reduce(.zero, +) / all.count
        #expect(mean > .milliseconds(18) && mean < .milliseconds(22))
        #expect(all.allSatisfy { $0 > .zero && $0 <= .milliseconds(200) })
        #expect(Set(all).count > 1000)
    }
}
