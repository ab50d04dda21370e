/// A parser of what strangers send, and what it promises whatever they send.
///
/// The tests give each target a few thousand inputs from a fixed seed (`Fuzzer`); `scripts/fuzz` lets libFuzzer look for
/// new ones for as long as one likes.
public protocol FuzzTarget: Sendable {
    /// What `scripts/fuzz` calls it.
    var name: String { get }
    /// Valid inputs, which mutations start from.
    var seeds: [[UInt8]] { get }
    /// Words of the format: a mutation puts them in whole.
    var words: [String] { get }

    /// A new input with the structure of the format.
    func generate(using random: inout SeededGenerator) -> [UInt8]

    /// - Throws: `BrokenPromise`, or whatever the parser should not have thrown.
    func check(_ input: [UInt8]) throws
}

extension FuzzTarget {
    /// Throws unless the promise holds.
    func promise(_ isKept: Bool, _ text: @autoclosure () -> String) throws(BrokenPromise) {
        if !isKept { throw BrokenPromise(description: text()) }
    }
}

/// What a parser did that it should not.
public struct BrokenPromise: Error, CustomStringConvertible {
    public let description: String
}
