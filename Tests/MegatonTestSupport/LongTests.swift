import Foundation

/// Tests that take longer than a change should wait for. `./scripts/test --all` runs them.
///
/// Tests whose subject has a shorter test too are enabled by ``areOn``. Those of many similar values take a
/// ``sample(_:every:)`` of them.
public enum LongTests {
    public static let areOn = ProcessInfo.processInfo.environment["MEGATON_TEST_ALL"] == "1"

    /// All values with `--all`; else the first one and each `distance`-th after it.
    public static func sample<Value>(_ values: [Value], every distance: Int) -> [Value] {
        guard !areOn else { return values }
        return stride(from: 0, to: values.count, by: distance).map { values[$0] }
    }
}
