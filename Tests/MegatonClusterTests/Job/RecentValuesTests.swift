import MegatonPipeline
import Testing

@testable import MegatonCluster

struct RecentValuesTests {
    @Test func aValueIsComputedOnceUntilOthersTakeItsPlace() {
        let values = RecentValues<Int, String>(limit: 2)
        var computed: [Int] = []
        func value(_ key: Int) -> String {
            values.value(of: key) {
                computed.append(key)
                return "\(key)"
            }
        }
        #expect([1, 2, 1, 2].map(value) == ["1", "2", "1", "2"])
        #expect(computed == [1, 2])
        // The oldest one makes room.
        #expect(value(3) == "3" && value(2) == "2" && value(1) == "1")
        #expect(computed == [1, 2, 3, 1])
    }

    /// Digests of the options are remembered by rendition; each option that changes bytes changes its digest.
    @Test func renditionsThatDifferHaveDigestsOfTheirOwn() {
        let sizes = (1...20).map { Rendition(name: "a", width: $0) }
        let digests = sizes.map(JobOutcome.Output.digest(ofOptions:))
        #expect(Set(digests).count == sizes.count && sizes.map(JobOutcome.Output.digest(ofOptions:)) == digests)
        var marked = sizes[0]
        marked.watermark = Rendition.Watermark(.text("b"))
        #expect(JobOutcome.Output.digest(ofOptions: marked) != digests[0])
        // The name is no option.
        #expect(JobOutcome.Output.digest(ofOptions: Rendition(name: "b", width: 1)) == digests[0])
    }
}
