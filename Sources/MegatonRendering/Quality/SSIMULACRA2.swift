internal import Foundation

/// SSIMULACRA2 2.1: how much an encoded image differs from its pixels to a human eye (Sneyers, 2023,
/// github.com/cloudinary/ssimulacra2). 100 is no difference, 90 none that is visible side by side, 70 high quality, 50
/// medium.
///
/// The structure and the edges of both images are compared in XYB at up to six scales, each half of the one before; the
/// means and fourth-power means of the differences are summed with weights that were fitted to ratings by people.
struct SSIMULACRA2 {
    private let width: Int
    private let height: Int
    private let scales: [Scale]

    /// The reference at one scale, blurred too.
    private struct Scale {
        let planes: Planes
        let mean: Planes
        let square: Planes
    }

    /// - Parameters:
    ///   - pixels: sRGB, three bytes for each pixel.
    ///   - width: Pixels in a row.
    init?(_ pixels: [UInt8], width: Int) {
        guard width > 0, !pixels.isEmpty, pixels.count % (3 * width) == 0 else { return nil }
        self.width = width
        height = pixels.count / (3 * width)
        var scales: [Scale] = []
        for planes in Self.pyramid(pixels, width, height) {
            scales.append(Scale(planes: planes, mean: planes.blurred(), square: planes.times(planes).blurred()))
        }
        // Neither side of an image may be below eight pixels.
        guard !scales.isEmpty else { return nil }
        self.scales = scales
    }

    /// The score of an image of the same size; nil if it has another size.
    func score(of pixels: [UInt8]) -> Double? {
        guard pixels.count == 3 * width * height else { return nil }
        var averages: [[Averages]] = []
        for (reference, planes) in zip(scales, Self.pyramid(pixels, width, height)) {
            averages.append(Self.compare(reference, planes))
        }
        var (sum, next) = (0.0, 0)
        for channel in 0..<3 {
            for scale in averages {
                for value in scale[channel].inOrder {
                    sum += Self.weights[next] * value
                    next += 1
                }
            }
        }
        let x = sum * 0.9562382616834844
        let y = 2.326765642916932 * x - 0.020884521182843837 * x * x + 6.248496625763138e-05 * x * x * x
        return y > 0 ? 100 - 10 * pow(y, 0.6276336467831387) : 100
    }

    /// The mean and the fourth-power mean of the differences of one channel at one scale.
    private struct Averages {
        var structure = Norms()
        var artifacts = Norms()
        var lostDetail = Norms()

        /// In the order of the weights.
        var inOrder: [Double] {
            [
                structure.mean, artifacts.mean, lostDetail.mean, structure.fourth, artifacts.fourth, lostDetail.fourth,
            ]
        }
    }

    private struct Norms {
        private var sum = 0.0
        private var fourths = 0.0
        private var count = 0.0

        mutating func add(_ value: Float) {
            let square = value * value
            sum += Double(value)
            fourths += Double(square * square)
            count += 1
        }

        var mean: Double { count > 0 ? sum / count : 0 }
        var fourth: Double { count > 0 ? (fourths / count).squareRoot().squareRoot() : 0 }
    }

    private static func compare(_ reference: Scale, _ planes: Planes) -> [Averages] {
        let (mean, square) = (planes.blurred(), planes.times(planes).blurred())
        let product = planes.times(reference.planes).blurred()
        return (0..<3).map { channel in
            var averages = Averages()
            for index in 0..<planes.area {
                let at = channel * planes.area + index
                let (mu1, mu2) = (reference.mean.values[at], mean.values[at])
                let structure = 1 - (mu1 - mu2) * (mu1 - mu2)
                let covariance = 2 * (product.values[at] - mu1 * mu2) + 0.0009
                // In this order, equal images have no difference at all.
                let variances = (reference.square.values[at] - mu1 * mu1) + (square.values[at] - mu2 * mu2) + 0.0009
                averages.structure.add(max(0, 1 - structure * covariance / variances))
                let edge1 = 1 + abs(reference.planes.values[at] - mu1)
                let difference = (1 + abs(planes.values[at] - mu2)) / edge1 - 1
                averages.artifacts.add(max(0, difference))
                averages.lostDetail.add(max(0, -difference))
            }
            return averages
        }
    }

    /// The image in XYB at up to six scales; none below eight pixels.
    private static func pyramid(_ pixels: [UInt8], _ width: Int, _ height: Int) -> [Planes] {
        var linear = Planes(width, height)
        for index in 0..<linear.area {
            for channel in 0..<3 {
                linear.values[channel * linear.area + index] = linearLight[Int(pixels[3 * index + channel])]
            }
        }
        var scales: [Planes] = []
        while scales.count < 6, linear.width >= 8, linear.height >= 8 {
            scales.append(linear.inXYB())
            linear = linear.halved()
        }
        return scales
    }

    /// Linear light of the 256 sRGB samples (IEC 61966-2-1).
    private static let linearLight: [Float] = (0..<256).map { sample in
        let value = Double(sample) / 255
        return Float(value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4))
    }

    /// By channel, scale, norm, and kind of difference.
    private static let weights: [Double] = [
        0, 0.0007376606707406586, 0, 0, 0.0007793481682867309, 0, 0, 0.0004371155730107379, 0, 1.1041726426657346,
        0.00066284834129271, 0.00015231632783718752, 0, 0.0016406437456599754, 0, 1.8422455520539298,
        11.441172603757666, 0, 0.0007989109436015163, 0.000176816438078653, 0, 1.8787594979546387, 10.94906990605142,
        0, 0.0007289346991508072, 0.9677937080626833, 0, 0.00014003424285435884, 0.9981766977854967,
        0.00031949755934435053, 0.0004550992113792063, 0, 0, 0.0013648766163243398, 0, 0, 0, 0, 0, 7.466890328078848,
        0, 17.445833984131262, 0.0006235601634041466, 0, 0, 6.683678146179332, 0.00037724407979611296,
        1.027889937768264, 225.20515300849274, 0, 0, 19.213238186143016, 0.0011401524586618361, 0.001237755635509985,
        176.39317598450694, 0, 0, 24.43300999870476, 0.28520802612117757, 0.0004485436923833408, 0, 0, 0,
        34.77906344483772, 44.835625328877896, 0, 0, 0, 0, 0, 0, 0, 0, 0.0008680556573291698, 0, 0, 0, 0, 0,
        0.0005313191874358747, 0, 0.00016533814161379112, 0, 0, 0, 0, 0, 0.0004179171803251336,
        0.0017290828234722833, 0, 0.0020827005846636437, 0, 0, 8.826982764996862, 23.19243343998926, 0,
        95.1080498811086, 0.9863978034400682, 0.9834382792465353, 0.0012286405048278493, 171.2667255897307,
        0.9807858872435379, 0, 0, 0, 0.0005130064588990679, 0, 0.00010854057858411537,
    ]
}

/// Three channels of the same size, one after the other.
private struct Planes {
    let width: Int
    let height: Int
    var values: [Float]

    init(_ width: Int, _ height: Int) {
        (self.width, self.height) = (width, height)
        values = [Float](repeating: 0, count: 3 * width * height)
    }

    var area: Int { width * height }

    func times(_ other: Planes) -> Planes {
        var result = self
        for index in values.indices { result.values[index] *= other.values[index] }
        return result
    }

    /// Means of two by two samples; of fewer at the right and the lower edge.
    func halved() -> Planes {
        var result = Planes((width + 1) / 2, (height + 1) / 2)
        for channel in 0..<3 {
            for y in 0..<result.height {
                for x in 0..<result.width {
                    let (right, lower) = (min(2 * x + 1, width - 1), min(2 * y + 1, height - 1))
                    let upperRow = channel * area + 2 * y * width
                    let lowerRow = channel * area + lower * width
                    // A sample that is its own neighbor counts twice, which is the mean of the others.
                    result.values[channel * result.area + y * result.width + x] =
                        (values[upperRow + 2 * x] + values[upperRow + right] + values[lowerRow + 2 * x]
                            + values[lowerRow + right]) / 4
                }
            }
        }
        return result
    }

    /// Linear RGB in the XYB of JPEG XL (ISO/IEC 18181-1), shifted to positive values.
    func inXYB() -> Planes {
        let bias: Float = 0.0037930732552754493
        let root = cbrtf(bias)
        var result = Planes(width, height)
        for index in 0..<area {
            let (r, g, b) = (values[index], values[area + index], values[2 * area + index])
            let l = cbrtf(max(0, 0.3 * r + 0.622 * g + 0.078 * b + bias)) - root
            let m = cbrtf(max(0, 0.23 * r + 0.692 * g + 0.078 * b + bias)) - root
            let s =
                cbrtf(max(0, 0.24342268924547819 * r + 0.20476744424496821 * g + 0.5518098665095536 * b + bias)) - root
            let y = (l + m) / 2
            result.values[index] = (l - m) / 2 * 14 + 0.42
            result.values[area + index] = y + 0.01
            result.values[2 * area + index] = s - y + 0.55
        }
        return result
    }

    /// Gaussian of 1.5 pixels, 11 taps in each direction: with zeros left and right of the image, and mirrored above
    /// and below, as in the package `ssimulacra2` of PyPI, whose scores these are.
    func blurred() -> Planes {
        let radius = Self.taps.count / 2
        var rows = Planes(width, height)
        var padded = [Float](repeating: 0, count: width + 2 * radius)
        for row in 0..<3 * height {
            let start = row * width
            for x in 0..<width { padded[x + radius] = values[start + x] }
            for x in 0..<width {
                var sum: Float = 0
                for tap in Self.taps.indices { sum += Self.taps[tap] * padded[x + tap] }
                rows.values[start + x] = sum
            }
        }
        var result = Planes(width, height)
        for channel in 0..<3 {
            for y in 0..<height {
                let target = (channel * height + y) * width
                for tap in Self.taps.indices {
                    let source = Self.mirrored(y + tap - radius, height)
                    let (weight, from) = (Self.taps[tap], (channel * height + source) * width)
                    for x in 0..<width { result.values[target + x] += weight * rows.values[from + x] }
                }
            }
        }
        return result
    }

    private static func mirrored(_ position: Int, _ count: Int) -> Int {
        let position = position < 0 ? -position - 1 : position
        return position < count ? position : 2 * count - 1 - position
    }

    private static let taps: [Float] = {
        let taps = (-5...5).map { exp(-Double($0 * $0) / (2 * 1.5 * 1.5)) }
        let sum = taps.reduce(0, +)
        return taps.map { Float($0 / sum) }
    }()
}
