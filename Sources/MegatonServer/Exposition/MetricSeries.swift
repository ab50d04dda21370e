internal import CoreMetrics
internal import MegatonCore
import Synchronization

/// The value of a metric with one combination of labels.
final class MetricSeries: CounterHandler, FloatingPointCounterHandler, MeterHandler, RecorderHandler, TimerHandler,
    Sendable
{
    private struct State {
        /// The value of a counter or gauge, or the sum of a histogram.
        var value = 0.0
        /// Observations of a histogram by the first bucket that has them; the last entry is for those above all bounds.
        var buckets: [Int]
    }

    private let labels: [(name: String, value: String)]
    private let bounds: [Double]
    private let isHistogram: Bool
    private let state: Mutex<State>

    init(labels: [(name: String, value: String)], description: MetricDescription) {
        self.labels = labels
        bounds = description.buckets
        isHistogram = description.kind == .histogram
        state = Mutex(State(buckets: Array(repeating: 0, count: description.buckets.count + 1)))
    }

    /// The lines of this series. The buckets of a histogram are cumulative.
    var samples: [MetricFamily.Sample] {
        let state = state.withLock { $0 }
        if !isHistogram { return [.init(state.value, labels: labels)] }
        var (samples, count): ([MetricFamily.Sample], Int) = ([], 0)
        for (index, number) in state.buckets.enumerated() {
            count += number
            let bound = index < bounds.count ? PrometheusText.number(bounds[index]) : "+Inf"
            samples.append(.init(Double(count), suffix: "_bucket", labels: labels + [("le", bound)]))
        }
        samples.append(.init(state.value, suffix: "_sum", labels: labels))
        samples.append(.init(Double(count), suffix: "_count", labels: labels))
        return samples
    }

    private func add(_ amount: Double) { state.withLock { $0.value += amount } }

    private func observe(_ value: Double) {
        if !isHistogram {
            set(value)
            return
        }
        let index = bounds.firstIndex { value <= $0 } ?? bounds.count
        state.withLock { state in
            state.value += value
            state.buckets[index] += 1
        }
    }

    // MARK: - swift-metrics

    func increment(by amount: Int64) { add(Double(amount)) }
    func increment(by amount: Double) { add(amount) }
    func decrement(by amount: Double) { add(-amount) }
    func reset() {
        state.withLock { state in
            state.value = 0
            state.buckets = Array(repeating: 0, count: state.buckets.count)
        }
    }
    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { state.withLock { $0.value = value } }
    func record(_ value: Int64) { observe(Double(value)) }
    func record(_ value: Double) { observe(value) }
    func recordNanoseconds(_ duration: Int64) { observe(Double(duration) / 1e9) }
}
