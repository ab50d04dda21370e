import Foundation
import MegatonTestSupport

/// The program behind `scripts/fuzz`. Built with `-D MEGATON_FUZZ` it runs libFuzzer on one target; otherwise it
/// generates inputs from a seed, like the tests, for a given time.
///
///     MegatonFuzz list                       the targets
///     MegatonFuzz seeds TARGET DIRECTORY     writes the target's valid inputs
///     MegatonFuzz check TARGET FILE …        checks these inputs
///     MegatonFuzz run TARGET …               libFuzzer with its own arguments, or: SECONDS [SEED]
@main enum MegatonFuzz {
    static func main() throws {
        #if DEBUG || MEGATON_FUZZ
            try run(Array(CommandLine.arguments.dropFirst()))
        #else
            fail("the parsers are not open to tests in this build; ./scripts/fuzz makes one in which they are")
        #endif
    }

    #if DEBUG || MEGATON_FUZZ
        private static func run(_ arguments: [String]) throws {
            let targets = try FuzzTargets.all()
            if arguments == ["list"] { return print(targets.map(\.name).joined(separator: "\n")) }
            guard arguments.count > 1, let target = targets.first(where: { $0.name == arguments[1] }) else {
                fail("usage: MegatonFuzz list | seeds TARGET DIRECTORY | check TARGET FILE … | run TARGET …")
            }
            let rest = Array(arguments.dropFirst(2))
            switch arguments[0] {
            case "seeds":
                for (number, seed) in target.seeds.enumerated() {
                    try Data(seed).write(to: URL(fileURLWithPath: "\(rest.first ?? ".")/seed-\(number)"))
                }
            case "check":
                for file in rest { try target.check([UInt8](Data(contentsOf: URL(fileURLWithPath: file)))) }
            case "run":
                #if MEGATON_FUZZ
                    Engine.run(target, arguments: rest)
                #else
                    try generate(target, seconds: Int(rest.first ?? "") ?? 60, seed: rest.dropFirst().first)
                #endif
            default:
                fail("\(arguments[0]) is no command")
            }
        }

        /// Runs a thousand inputs for each seed, from the first seed on.
        private static func generate(_ target: any FuzzTarget, seconds: Int, seed: String?) throws {
            let end = ContinuousClock.now + .seconds(seconds)
            var seed = seed.flatMap { UInt64($0) } ?? 1
            while ContinuousClock.now < end {
                try Fuzzer(target, seed: seed).run(1000)
                seed &+= 1
            }
            print("\(target.name): no promise broken up to seed \(seed)")
        }
    #endif

    private static func fail(_ text: String) -> Never {
        FileHandle.standardError.write(Data("\(text)\n".utf8))
        exit(64)
    }
}
