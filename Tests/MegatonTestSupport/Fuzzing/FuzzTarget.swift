/// A parser of untrusted input, and the properties that hold for any input.
///
/// The tests give each target a few thousand inputs from a fixed seed (`Fuzzer`); `scripts/fuzz` lets libFuzzer search
/// for new ones for as long as it runs.
public protocol FuzzTarget: Sendable {
    /// Name of the target in `scripts/fuzz`.
    var name: String { get }
    /// Valid inputs, from which mutations start.
    var seeds: [[UInt8]] { get }
    /// Words of the format, which mutations insert whole.
    var words: [String] { get }

    /// Generates an input with the structure of the format.
    func generate(using random: inout SeededGenerator) -> [UInt8]

    /// - Throws: `BrokenPromise`, or an error that the parser should not have thrown.
    func check(_ input: [UInt8]) throws
}

extension FuzzTarget {
    /// Throws unless the property holds.
    func promise(_ isKept: Bool, _ text: @autoclosure () -> String) throws(BrokenPromise) {
        if !isKept { throw BrokenPromise(description: text()) }
    }
}

/// A property that a parser violated.
public struct BrokenPromise: Error, CustomStringConvertible {
    public let description: String
}
