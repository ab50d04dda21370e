import Foundation
import Testing

@testable import MegatonCore
@testable import MegatonRendering

@Suite struct PlaneScalerTests {
    /// Sides of sources and results: shrunk a little and a lot, enlarged, shorter than the kernel, and one sample.
    private static let sides = [
        (200, 97), (800, 256), (533, 170), (64, 64), (40, 97), (7, 3), (3, 7), (1, 5), (9, 1), (1, 1), (2000, 3),
        (33, 8),
    ]

    private static func plane(_ width: Int, _ height: Int, _ sample: (_ x: Int, _ y: Int) -> UInt8) throws -> Plane {
        let plane = try #require(Plane(width: width, height: height))
        for y in 0..<height { for x in 0..<width { plane.bytes[y * plane.stride + x] = sample(x, y) } }
        return plane
    }

    private static func axis(_ source: Int, _ part: (Double, Double), _ count: Int, isAcross: Bool) throws -> PlaneAxis
    {
        let key = PlaneAxis.Key(source: source, start: part.0, length: part.1, count: count, isAcross: isAcross)
        return try #require(PlaneAxis(key))
    }

    private static func noise(_ x: Int, _ y: Int) -> UInt8 {
        UInt8(truncatingIfNeeded: (x &* 7919 &+ y &* 104_729 &+ x &* y &* 31) >> 3)
    }

    /// A weighted sum for each result, by the definition of the kernel.
    private static func expected(_ samples: [Double], _ part: (Double, Double), _ count: Int) -> [Double] {
        let step = part.1 / Double(count)
        let squeeze = min(1, 1 / step)
        return (0..<count).map { index in
            let center = (Double(index) + 0.5) * step + part.0
            let (first, last) = (Int((center - 3 / squeeze).rounded(.down)), Int((center + 3 / squeeze).rounded(.up)))
            var (sum, weights) = (0.0, 0.0)
            for place in first...last {
                let x = (Double(place) + 0.5 - center) * squeeze
                if abs(x) >= 3 { continue }
                let weight = x == 0 ? 1 : 3 * sin(.pi * x) * sin(.pi * x / 3) / (.pi * .pi * x * x)
                let turn = 2 * samples.count
                var mirrored = (place % turn + turn) % turn
                if mirrored >= samples.count { mirrored = turn - 1 - mirrored }
                sum += weight * samples[min(max(0, mirrored), samples.count - 1)]
                weights += weight
            }
            return sum / weights
        }
    }

    @Test(arguments: sides) func samplesAreWeightedByTheKernel(_ source: Int, _ count: Int) throws {
        let samples = (0..<source).map { Self.noise($0, 5) }
        let whole = Double(source)
        for part in [(0, whole), (whole / 4, whole / 2), (-0.5, whole), (0.5, whole), (0, whole - 0.5)] {
            let wanted = Self.expected(samples.map(Double.init), part, count)
            // As a row, and as a column.
            let row = try Self.plane(source, 1) { x, _ in samples[x] }
            let column = try Self.plane(1, source) { _, y in samples[y] }
            let (one, across) = (
                try Self.axis(1, (0, 1), 1, isAcross: false), try Self.axis(source, part, count, isAcross: true)
            )
            let (single, down) = (
                try Self.axis(1, (0, 1), 1, isAcross: true), try Self.axis(source, part, count, isAcross: false)
            )
            let (wide, high) = (try #require(row.scaled(across, one)), try #require(column.scaled(single, down)))
            #expect((wide.width, wide.height) == (count, 1) && (high.width, high.height) == (1, count))
            for index in 0..<count {
                let value = min(max(0, wanted[index]), 255)
                #expect(abs(Double(wide.bytes[index]) - value) <= 1, "\(part) \(index)")
                #expect(abs(Double(high.bytes[index * high.stride]) - value) <= 1, "\(part) \(index)")
            }
        }
    }

    /// All workers of a fleet write the same bytes into the shared cache.
    @Test(arguments: sides, sides) func allProcessorsHaveTheSameResult(_ wide: (Int, Int), _ high: (Int, Int)) throws {
        let plane = try Self.plane(wide.0, high.0, Self.noise)
        let across = try Self.axis(wide.0, (0, Double(wide.0) - 0.25), wide.1, isAcross: true)
        let down = try Self.axis(high.0, (0, Double(high.0)), high.1, isAcross: false)
        let fast = try #require(plane.scaled(across, down))
        let plain = try #require(plane.scaled(across, down, isPlain: true))
        for row in 0..<high.1 {
            #expect(memcmp(fast.bytes + row * fast.stride, plain.bytes + row * plain.stride, wide.1) == 0, "row \(row)")
        }
    }

    @Test(arguments: [0, 1, 128, 254, 255] as [UInt8]) func anEvenPlaneStaysAsItIs(_ value: UInt8) throws {
        for (wide, high) in zip(Self.sides, Self.sides.reversed()) {
            let plane = try Self.plane(wide.0, high.0) { _, _ in value }
            let across = try Self.axis(wide.0, (0, Double(wide.0)), wide.1, isAcross: true)
            let down = try Self.axis(high.0, (0, Double(high.0)), high.1, isAcross: false)
            let scaled = try #require(plane.scaled(across, down))
            for y in 0..<high.1 { for x in 0..<wide.1 { #expect(scaled.bytes[y * scaled.stride + x] == value) } }
        }
    }

    @Test func theSameSizeHasTheSameSamples() throws {
        let plane = try Self.plane(75, 41, Self.noise)
        let across = try Self.axis(75, (0, 75), 75, isAcross: true)
        let scaled = try #require(plane.scaled(across, try Self.axis(41, (0, 41), 41, isAcross: false)))
        for y in 0..<41 { #expect(memcmp(scaled.bytes + y * scaled.stride, plane.bytes + y * plane.stride, 75) == 0) }
    }

    @Test(arguments: [(0, 0.0, 1.0, 1), (1, 0, 0, 1), (1, 0, 1, 0), (1, .nan, 1, 1), (10, 0, 1e9, 1)])
    func partsWithoutSenseAreRefused(_ source: Int, _ start: Double, _ length: Double, _ count: Int) {
        for isAcross in [true, false] {
            let key = PlaneAxis.Key(source: source, start: start, length: length, count: count, isAcross: isAcross)
            #expect(PlaneAxis(key) == nil)
        }
    }
}
