import type { Language } from './language.js';

/**
 * Words that carry an opinion. A trailing `*` stands for any ending, `_` for the space between two words, a leading
 * `!` for a strong word (2 points), a leading `~` for a weak one (half a point); the others have 1 point.
 */
interface WordList {
  readonly positive: string;
  readonly negative: string;
  /** Turn around what follows within the next few words; wishes count, because they were disappointed. */
  readonly negators: string;
  readonly intensifiers: string;
  /** What follows them in the sentence weighs more than what precedes. */
  readonly contrasts: string;
}

export const WORD_LISTS: { readonly [language in Language]: WordList } = {
  en: {
    positive:
      '!love !loved !loves !loving !perfect* !amazing !awesome !fantastic !excellent !wonderful* !gorgeous ' +
      '!favorite* !favourite* !fabulous !outstanding !delight* !brilliant !superb !stunning !compliment* ' +
      '!wow !best !miracle !joy great good nice* pretty beautiful* lovely comfortable comfy cozy soft ' +
      'flattering cute happy pleased glad enjoy* recommend* satisfied helpful friendly fast easy reliable ' +
      'elegant adorable versatile unique fun classy chic thank* better impressed quality worth surprised ' +
      'smooth* quiet* sharp crisp clean* fluffy toasty spacious generous handy clever solid tough ' +
      'waterproof consistent accurate quick* durable robust powerful genius cheerful bargain thrilled ' +
      'grateful proud finally survived better_than_new magic buy_again highly_recommend works_great ' +
      'works_well just_work just_works still_works still_working still_going life_saver game_changer ' +
      'five_stars every_penny no_contest looks_good nothing_better what_more pleasantly_surprised ' +
      'not_a_scratch well_made as_described as_advertised does_what ~like ~liked ~likes ~well ~fits ~bright ' +
      '~sturdy ~warm ~true ~staple ~feminine ~vibrant ~works ~fine ~drapes ~silky ~strong ~light ~dry ' +
      '~clear ~simple ~decent ~proper ~lasted ~lasts ~holds ~held ~warmest ~tidy ~star_off ~costs_it ' +
      'everything_works actually_works lasts_for no_complaints beautifully effortless* long_enough ' +
      "big_enough large_enough light_enough warm_enough look_good easy_to better_now won't_regret " +
      "wouldn't_be couldn't_be can't_fault can't_complain don't_regret don't_hesitate didn't_expect " +
      '~first_try',
    negative:
      '!terrible !horribl* !awful* !worst !disappoint* !hate !hated !useless !garbage !unflattering ' +
      '!refund* !disgust* !waste* !broke !broken !poor* !unacceptable !defective !ruined !worse !avoid ' +
      '!rubbish !unusable !died !dead !junk !scam !fraud !dangerous !nightmare !joke !pathetic !dreadful ' +
      "!atrocious !don't_bother !give_up !given_up !gave_up !fell_apart !falls_apart !fall_apart " +
      '!stopped_working !stop_working !never_again !money_back !nope bad badly cheap* returned returning ' +
      'return itchy scratchy uncomfortable shapeless boxy unfortunately sadly annoy* frustrat* rude slow ' +
      'late damaged faulty missing wrong problem* issue* complain* flimsy frumpy awkward* weird* strange ' +
      'odd* ugly stiff hole* rip ripped tore torn stain* unravel* shrunk faded thin sheer see-through ' +
      'stupid crap angry overwhelm* sloppy unwearable unimpressed lack* fail* difficult shame meh mess ' +
      'nothing tent maternity leak leaked leaks leaking leaky drip* crack* chip chipped bent rust* kink* ' +
      'clog* slip slips slipped stuck sticks jam* squeak* buzz* whine* rattl* wobbl* flicker* froze frozen ' +
      'crash* overheat* burned burnt burns sparks smoke melt* peel* fell falls lumpy grainy tinny noisy ' +
      'loud smell smells stink* silent blister* limescale kill sick die dies stole killed scratches creak* ' +
      'warped split cold painful pain hurts hopeless unbearable dull never_came nobody still_waiting ' +
      'not_once come_off came_off coming_off falls_off fall_out fell_out fell_off peeling_off wears_off ' +
      'apparently supposedly allegedly worry worried hurt two_stars one_star zero_stars was_told weeks_late ' +
      'days_late slower wrong_colour no_answer no_reply no_idea nobody_answers too_late out_of_order ' +
      'sent_it returned_it never_arrived not_as cons drawback downside ~tight ~huge ~enormous* ~wide ~large ' +
      '~baggy ~too ~swam ~overpriced ~expensive ~pregnant ~weak ~wanted ~supposed ~twice ~three_times ' +
      '~plastic ~replacement ~instead ~support ~wait ~waiting ~smelled ~nagging ~even_though',
    negators:
      "not no never don't doesn't didn't isn't wasn't aren't weren't won't wouldn't can't cannot couldn't " +
      "haven't hasn't without hardly barely neither nor wanted hoping hoped wish wished dont doesnt didnt " +
      'isnt wasnt wont cant',
    intensifiers: 'very really so extremely super absolutely totally incredibly completely highly such',
    contrasts: 'but however unfortunately although though sadly',
  },
  de: {
    positive:
      '!liebe !perfekt* !hervorragend* !ausgezeichnet* !fantastisch* !wunderbar* !wunderschön* !begeister* ' +
      '!super !toll* !genial* !herrlich* !großartig* !klasse !spitze !traumhaft* !beste* gut gute guter ' +
      'gutes schön* bequem* zufrieden* freundlich* schnell* superschnell empfehl* angenehm* hübsch* gern* ' +
      'danke prima handlich leise schick kräftig stabil* zuverlässig* warm leicht* einfach endlich hält ' +
      'passt passen leuchtet robust* überstanden überlebt praktisch* hell scharf wie_angegossen noch_heiß ' +
      'besser nichts_besseres ~funktioniert ~heiß ~trägt ~liegt',
    negative:
      '!schrecklich* !furchtbar* !enttäusch* !schlecht* !mangelhaft* !katastroph* !unbrauchbar* !nie ' +
      '!kaputt* !schrott !müll !tonne !tot !undicht !keine_antwort !niemand billig* leider defekt* langsam* ' +
      'unfreundlich* zurückgeschickt rücksendung kratz* unbequem* ärger* problem* falsch* fehler* hässlich* ' +
      'laut klingt quietsch* klappert knick* knickt tropf* raschelt verirrt bricht gebrochen riss gerissen ' +
      'stinkt riecht vergesst kalt im_keller warte angeblich kundendienst weckt schließt_nicht ~kaum ' +
      '~ziemlich ~fehlte ~zu',
    negators: 'nicht kein keine keinen keiner nie niemals ohne kaum',
    intensifiers: 'sehr wirklich absolut total besonders so',
    contrasts: 'aber jedoch leider allerdings dafür',
  },
  fr: {
    positive:
      '!adore* !parfait* !excellent* !magnifique* !merveill* !génial* !super !bluffant* !top !impeccable* ' +
      '!formidable* bon bonne bonnes bons bien beau belle joli* confortable* content* satisfait* agréable* ' +
      'recommande* rapide* aime* merci facile* ravi* efficace* précis* solide* costaud* pratique* léger* ' +
      'légère* silencieu* cinq_étoiles régulièr* marche_encore jamais_été enfin qualité chaud ~marche ' +
      '~fonctionne',
    negative:
      '!terrible* !horrible* !décev* !déçu* !nul* !affreux !pire !arnaque !poubelle !toujours_rien mauvais* ' +
      'cassé* lent* cher trop défectu* inconfortable* problème* malheureusement dommage retour* renvoy* ' +
      'moche* rembours* impoli* fuit fuite dégonfl* décoll* lâché lâche tombe tombent perdu bruit cassée ' +
      'panne retard mal jamais ~peu ~dur ~bof ~petits ~bruyant',
    negators: "pas jamais sans aucun aucune ni n'est n'ont",
    intensifiers: 'très vraiment tellement absolument',
    contrasts: 'mais cependant malheureusement pourtant',
  },
  es: {
    positive:
      '!encant* !perfect* !excelente* !fantástic* !maravill* !increíble* !genial* !muchísimo !de_maravilla ' +
      '!mejor buen bueno buena buenos bien bonit* cómod* precio_justo content* satisfech* recomiend* ' +
      'recomend* rápid* gusta gustó amable* feliz precios* gracias garantizad* ~cumple encantad* fácil* ' +
      'útil ligero silencios* por_fin resistente* lejísimos calidad ~funciona ~poco ~suena',
    negative:
      '!terrible* !horrible* !decepcion* !pésim* !peor !rota !roto !timo !basura malo mala mal lent* caro ' +
      'cara barat* defectuos* incómod* problema* devolv* devuelt* devolví desafortunadamente lástima feo ' +
      'fea error* demasiado no_aguanta atasca ruido ruidos* dolor duele tarda falla fallo fallan lo_mismo ' +
      'no_carga ~ni_siquiera ~susto',
    negators: 'no nunca sin ni jamás tampoco',
    intensifiers: 'muy realmente super totalmente',
    contrasts: 'pero sin_embargo desafortunadamente aunque',
  },
  it: {
    positive:
      '!ador* !perfett* !eccellent* !fantastic* !meraviglios* !ottim* !splendid* !bellissim* buon* bell* ' +
      'robust* profumat* comod* content* soddisfatt* consigli* veloce* rapid* bene piac* gentil* grazie ' +
      'facile* semplice* omogene* finalmente precis* silenzios* pratico leggero* qualità ~funziona',
    negative:
      '!terribil* !orribil* !delus* !pessim* !peggior* !insopportabil* !rott* brutt* cattiv* lent* caro ' +
      'cara cari difettos* scomod* problem* purtroppo peccato reso restitu* rimbors* sbagliat* troppo male ' +
      'ritardo perde macchiat* gocciola nessuno rumoros* odore assistenza si_rompe ~stringe ~aspettavo',
    negators: 'non mai senza nessun nessuna né',
    intensifiers: 'molto davvero veramente assolutamente',
    contrasts: 'ma però purtroppo tuttavia',
  },
  pt: {
    positive:
      '!ador* !perfeit* !excelente* !fantástic* !maravilh* !incrível !ótim* !melhor bom boa bons boas ' +
      'bonit* confortáve* content* satisfeit* recomend* rápid* gost* bem feliz lind* obrigad* fácil ' +
      'aguentou segurou antes_do sem_uma embalad* resistente* prático não_quero ~funciona ~chega',
    negative:
      '!terríve* !horríve* !decepcion* !péssim* !pior ruim mau má quebrad* lent* caro cara defeituos* ' +
      'desconfortáve* problema* infelizmente devolv* pena fei* reembols* errad* demais deixou_de preso ' +
      'irrita apita falt* barulh* ~só',
    negators: 'não nunca sem nem jamais',
    intensifiers: 'muito realmente super totalmente',
    contrasts: 'mas porém infelizmente contudo',
  },
  nl: {
    positive:
      '!perfect* !uitstekend* !fantastisch* !geweldig* !prachtig* !heerlijk* !top !super goed goede mooi* ' +
      'fijn* comfortabel* tevreden* blij snel* vriendelijk* aanrader leuk* makkelijk* bedankt lekker prima ' +
      'handig stevig* stil warm felle fel licht blijven aardig eindelijk ~klein ~werkt',
    negative:
      '!vreselijk* !verschrikkelijk* !teleur* !slecht* !waardeloos* !kapot* !lek traag langzaam duur ' +
      'goedkoop* helaas jammer probleem* problemen teruggestuurd retour oncomfortabel* fout* lelijk* ' +
      'onvriendelijk* nat verkeerd* overleden niet_ontvangen stuk piepje piept lawaai geen_pakket weer_lek ' +
      '~alleen',
    negators: 'niet geen nooit zonder nauwelijks',
    intensifiers: 'heel erg zeer echt',
    contrasts: 'maar echter helaas',
  },
  pl: {
    positive: '!rewelacyjn* !świetn* !doskonał* !polecam ładn* ciepł* szybk* dobr* wygodn* zadowolon* lekk*',
    negative:
      '!fatal* !okropn* !beznadziej* !nie_polecam zacina zepsu* przecieka* reklamacja głośn* słab* drog* ' +
      'pół iskrzy ~ciężk*',
    negators: 'nie bez ani nigdy',
    intensifiers: 'bardzo naprawdę',
    contrasts: 'ale choć jednak',
  },
  tr: {
    positive: '!harika !mükemmel* !memnun* güzel iyi rahat hızlı sessiz kaliteli sıcak',
    negative:
      '!berbat !kötü değil bozuk kırık çöküyor takılıp gürültülü yavaş pahalı iade eksik sızdır* sürekli',
    negators: 'hiç',
    intensifiers: 'çok gerçekten',
    contrasts: 'ama fakat',
  },
  ja: {
    positive: '!最高 !素晴らし 良い いい おしゃれ 便利 簡単 暖かい すぐ 軽い 満足 静か 快適 大丈夫',
    negative: '!残念 !壊れ !最悪 動かなく 痛く 痛い 噛みます うるさい 重い 遅い 不良 閉まりません',
    negators: 'ない',
    intensifiers: 'とても',
    contrasts: 'が けど',
  },
  ar: {
    positive: '!ممتاز* !رائع* جيد* مريح* قوي* مناسب* جميل* سريع*',
    negative: '!مكسور* !سيئ* !سيئة استرداد أقل ضعيف* بطيء* غالي*',
    negators: 'لم لا ليس لن',
    intensifiers: 'جداً جدا',
    contrasts: 'لكن',
  },
};
