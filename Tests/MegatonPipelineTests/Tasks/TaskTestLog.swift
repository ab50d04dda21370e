@testable import MegatonPipeline

/// Events delivered to observers, one line for each.
final class TaskTestLog: Sendable {
    private let state = TaskTestBox<[String]>([])

    var lines: [String] { state.value }

    func observer(_ name: String) -> WorkObserver<Int> {
        { event, _ in
            let text =
                switch event {
                case .value(let value, isCompleted: true): "\(value)"
                case .value(let value, isCompleted: false): "\(value)…"
                case .progress(let completed, let total): "\(completed)/\(total)"
                case .failure(let error): error.code.rawValue
                }
            self.state.withLock { $0.append("\(name): \(text)") }
        }
    }
}
