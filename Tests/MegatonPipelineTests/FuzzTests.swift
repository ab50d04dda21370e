import Foundation
import MegatonTestSupport
import Testing

/// A few thousand inputs for each parser of this module, the same ones in each run. `scripts/fuzz` runs more.
@Suite(.timeLimit(.minutes(2))) struct FuzzTests {
    @Test func addressesAreOfTheClassThatTheRegistriesSay() throws {
        try Fuzzer(AddressFuzz()).run(5000)
    }

    @Test func noAcceptedURLLeadsToAnotherHostOrARefusedAddress() throws {
        try Fuzzer(URLFuzz()).run(5000)
    }

    @Test func anyBytesAreAnImageOrAnError() throws {
        try Fuzzer(try ImageFuzz(files: Corpus.smallImages())).run(1200)
    }

    @Test func anyBoxesAreMeasuredOrRefused() throws {
        try Fuzzer(HEIFFuzz(files: Corpus.smallImages())).run(5000)
    }

    @Test func coefficientsAreThoseOfLibjpeg() throws {
        try Fuzzer(JPEGFuzz(files: Corpus.smallImages())).run(5000)
    }

    @Test func lifetimesAreNeverNegativeEndlessOrNoNumber() throws {
        try Fuzzer(HTTPCacheFuzz()).run(2000)
    }

    @Test func anyBlobIsAnEntryOrAMiss() throws {
        try Fuzzer(try CacheBlobFuzz()).run(5000)
    }

    /// The same seed gives the same inputs, so a failure can be reproduced.
    @Test func theSameSeedGivesTheSameInputs() throws {
        let (first, second) = (Fuzzer(AddressFuzz(), seed: 3), Fuzzer(AddressFuzz(), seed: 3))
        #expect((0..<200).map(first.input) == (0..<200).map(second.input))
        #expect((0..<200).map(first.input) != (0..<200).map(Fuzzer(AddressFuzz(), seed: 4).input))
    }

    @Test func aBrokenPromiseIsReportedWithItsInput() throws {
        #expect {
            try Fuzzer(Unkept()).run(100)
        } throws: { "\($0)".contains("base") && "\($0)".contains("seed 1") && "\($0)".contains(": eA==") }
    }

    private struct Unkept: FuzzTarget {
        let name = "unkept"
        let seeds: [[UInt8]] = [[], [120]]
        let words: [String] = []
        func generate(using random: inout SeededGenerator) -> [UInt8] { [] }
        func check(_ input: [UInt8]) throws {
            if input == [120] { throw CocoaError(.fileReadUnknown, userInfo: [NSLocalizedDescriptionKey: "base"]) }
        }
    }
}
