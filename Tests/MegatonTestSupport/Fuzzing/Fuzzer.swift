import Foundation

/// Runs a target on generated inputs and on mutations of valid ones. The same seed gives the same inputs.
public struct Fuzzer {
    private let target: any FuzzTarget
    private let seed: UInt64
    private let mutator: Mutator

    public init(_ target: any FuzzTarget, seed: UInt64 = 1) {
        self.target = target
        self.seed = seed
        mutator = Mutator(seeds: target.seeds, words: target.words)
    }

    /// The input with this number. Each has its own generator, so that one can be reproduced without those before it.
    public func input(_ number: Int) -> [UInt8] {
        var random = SeededGenerator(seed: seed &+ UInt64(number) &* 0xD134_2543_DE82_EF95)
        if number < target.seeds.count { return target.seeds[number] }
        switch Int.random(in: 0..<4, using: &random) {
        case 0: return target.generate(using: &random)
        case 1: return mutator.mutate(target.generate(using: &random), using: &random)
        default: return mutator.mutate(mutator.seed(using: &random), using: &random)
        }
    }

    /// Checks `count` inputs.
    ///
    /// An input that ends the process (a trap throws no error) is left in a file named `megaton-fuzz-<target>-<pid>` in
    /// the temporary directory.
    ///
    /// - Throws: `Failure` with the first input that violates a property.
    public func run(_ count: Int) throws {
        let last = LastInput(target.name)
        for number in 0..<count {
            let input = input(number)
            last.write(input)
            do {
                try target.check(input)
            } catch {
                last.remove()
                throw Failure(target: target.name, seed: seed, number: number, input: input, reason: "\(error)")
            }
        }
        last.remove()
    }

    /// An input that violated a property.
    public struct Failure: Error, CustomStringConvertible {
        let target: String
        let seed: UInt64
        let number: Int
        let input: [UInt8]
        let reason: String

        public var description: String {
            """
            \(target): \(reason)
            input \(number) of seed \(seed), \(input.count) bytes: \(Data(input).base64EncodedString())
            """
        }
    }
}

/// Stores the input being checked in a file, in case the check ends the process. The file stays open: creating one for
/// each input would cost milliseconds.
private final class LastInput {
    private let path: String
    private let file: CInt

    init(_ target: String) {
        path = NSTemporaryDirectory() + "/megaton-fuzz-\(target)-\(ProcessInfo.processInfo.processIdentifier)"
        file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    }

    deinit { close(file) }

    func write(_ input: [UInt8]) {
        _ = pwrite(file, input, input.count, 0)
        _ = ftruncate(file, off_t(input.count))
    }

    func remove() { unlink(path) }
}
